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

// observed is what one pass has seen.
type observed struct {
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

func (o *observed) underWay() *v1alpha1.DrillRun {
	if o.repo.Status.Drill == nil {
		return nil
	}
	return o.repo.Status.Drill.UnderWay
}

// leaving: no drill is wanted any more.
func (o *observed) leaving() bool {
	return o.repo.Spec.Drill == nil || !o.repo.DeletionTimestamp.IsZero()
}

// observe does every read of a pass, and moves the schedule on.
func (r *Reconciler) observe(ctx context.Context, repo *v1alpha1.BackupRepository) (*observed, error) {
	o := &observed{repo: repo, now: r.Now()}
	o.turn()
	run := o.underWay()
	if run == nil {
		return o, nil
	}
	var err error
	if o.job, err = workload.Observe(ctx, r.Client, r.Live, repo, jobName(run)); err != nil {
		return o, err
	}
	key := client.ObjectKey{Namespace: repo.Namespace, Name: run.Name}
	restore := &v1alpha1.Restore{}
	switch err := r.Live.Get(ctx, key, restore); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return o, fmt.Errorf("read Restore %s: %w", run.Name, err)
	case metav1.IsControlledBy(restore, repo):
		o.restore = restore
	default:
		o.foreign = true
	}
	return o, r.observeCluster(ctx, o, key)
}

// observeCluster finds the cluster that the Restore has made. One of its name that somebody else made is none.
func (r *Reconciler) observeCluster(ctx context.Context, o *observed, key client.ObjectKey) error {
	made := o.underWay().RestoreUID
	if o.restore != nil {
		made = o.restore.UID
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := r.Live.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", key.Name, err)
	}
	if made != "" && cluster.Annotations[v1alpha1.AnnotationRestoredBy] == string(made) {
		o.cluster = cluster
	}
	return nil
}

// turn moves the schedule on. Times that come while drills are suspended don't count.
func (o *observed) turn() {
	spec := o.repo.Spec.Drill
	if spec == nil {
		return
	}
	if o.repo.Status.Drill == nil {
		o.repo.Status.Drill = &v1alpha1.DrillStatus{}
	}
	status := o.repo.Status.Drill
	before := cron.Times{Last: status.LastScheduleTime, Next: status.NextScheduleTime}
	if spec.Suspend {
		before.Next = nil
	}
	var times cron.Times
	times, o.invalid = cron.Turn("spec.drill", spec.Schedule, spec.TimeZone, before, o.now)
	status.LastScheduleTime, status.NextScheduleTime = times.Last, times.Next
	if spec.Suspend {
		status.NextScheduleTime = nil
	}
}

// wanted: a time of the schedule has come since the last drill ended, or there is another token.
func (o *observed) wanted() bool {
	if o.leaving() {
		return false
	}
	status := o.repo.Status.Drill
	if token := o.repo.Spec.Drill.Token; token != "" && token != status.Token {
		return true
	}
	come, last := status.LastScheduleTime, status.Last
	return come != nil && !o.repo.Spec.Drill.Suspend && (last == nil || last.CompletedAt.Before(come))
}

// deadline of the drill that is under way.
func (o *observed) deadline() time.Time {
	timeout := int32(0)
	if o.repo.Spec.Drill != nil {
		timeout = o.repo.Spec.Drill.TimeoutSeconds
	}
	return o.underWay().StartedAt.Add(time.Duration(timeout) * time.Second)
}
