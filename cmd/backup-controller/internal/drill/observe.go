package drill

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/cron"
	"howdah.dev/howdah/pkg/workload"
)

// world is what one pass has seen.
type world struct {
	repo *v1alpha1.BackupRepository
	now  time.Time
	// invalid says what is wrong with the schedule.
	invalid error
	// restore of the drill that is under way, nil where there is none; foreign: there is one of its name that is somebody
	// else's.
	restore *v1alpha1.Restore
	foreign bool
	// cluster that this Restore has made; nil where there is none.
	cluster *v1alpha1.PostgresCluster
	job     workload.State
}

func (w *world) underWay() *v1alpha1.DrillRun {
	if w.repo.Status.Drill == nil {
		return nil
	}
	return w.repo.Status.Drill.UnderWay
}

// leaving: no drill is wanted any more.
func (w *world) leaving() bool { return w.repo.Spec.Drill == nil || !w.repo.DeletionTimestamp.IsZero() }

// observe does every read of a pass, and moves the schedule on.
func (r *Reconciler) observe(ctx context.Context, repo *v1alpha1.BackupRepository) (*world, error) {
	w := &world{repo: repo, now: r.Now()}
	w.turn()
	run := w.underWay()
	if run == nil {
		return w, nil
	}
	var err error
	if w.job, err = workload.Observe(ctx, r.Client, r.Reader, repo, jobName(run)); err != nil {
		return w, err
	}
	key := client.ObjectKey{Namespace: repo.Namespace, Name: run.Name}
	restore := &v1alpha1.Restore{}
	switch err := r.Reader.Get(ctx, key, restore); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return w, fmt.Errorf("read Restore %s: %w", run.Name, err)
	case metav1.IsControlledBy(restore, repo):
		w.restore = restore
	default:
		w.foreign = true
	}
	return w, r.observeCluster(ctx, w, key)
}

// observeCluster finds the cluster that the Restore has made. One of its name that somebody else made is none.
func (r *Reconciler) observeCluster(ctx context.Context, w *world, key client.ObjectKey) error {
	made := w.underWay().RestoreUID
	if w.restore != nil {
		made = w.restore.UID
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := r.Reader.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", key.Name, err)
	}
	if made != "" && cluster.Annotations[v1alpha1.AnnotationRestoredBy] == string(made) {
		w.cluster = cluster
	}
	return nil
}

// turn moves the schedule on. Times that come while drills are suspended don't count.
func (w *world) turn() {
	spec := w.repo.Spec.Drill
	if spec == nil {
		return
	}
	if w.repo.Status.Drill == nil {
		w.repo.Status.Drill = &v1alpha1.DrillStatus{}
	}
	status := w.repo.Status.Drill
	before := cron.Times{Last: status.LastScheduleTime, Next: status.NextScheduleTime}
	if spec.Suspend {
		before.Next = nil
	}
	var times cron.Times
	times, w.invalid = cron.Turn("spec.drill", spec.Schedule, spec.TimeZone, before, w.now)
	status.LastScheduleTime, status.NextScheduleTime = times.Last, times.Next
	if spec.Suspend {
		status.NextScheduleTime = nil
	}
}

// wanted: a time of the schedule has come since the last drill ended, or there is another token.
func (w *world) wanted() bool {
	if w.leaving() {
		return false
	}
	status := w.repo.Status.Drill
	if token := w.repo.Spec.Drill.Token; token != "" && token != status.Token {
		return true
	}
	come, last := status.LastScheduleTime, status.Last
	return come != nil && !w.repo.Spec.Drill.Suspend && (last == nil || last.CompletedAt.Before(come))
}

// deadline of the drill that is under way.
func (w *world) deadline() time.Time {
	timeout := int32(0)
	if w.repo.Spec.Drill != nil {
		timeout = w.repo.Spec.Drill.TimeoutSeconds
	}
	return w.underWay().StartedAt.Add(time.Duration(timeout) * time.Second)
}
