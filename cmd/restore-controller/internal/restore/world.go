package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// world is everything that a pass has seen. Steps change only the status of restore.
type world struct {
	restore *v1alpha1.Restore
	now     time.Time
	// cluster that the restore makes or is to bring back, or that has its name.
	cluster *v1alpha1.PostgresCluster
	// source Backup and PostgresCluster, and the repository that has the data; nil: not there.
	backup     *v1alpha1.Backup
	source     *v1alpha1.PostgresCluster
	repository *v1alpha1.BackupRepository
	// archive is the repository that spec.destination.newCluster names; nil: none is named, or it isn't there.
	archive *v1alpha1.BackupRepository
	// logins are the Secrets that are there of those that the new cluster needs, by name.
	logins map[string]*corev1.Secret
	job    workload.State
	// last Restore that says how long it took; nil: none.
	last *v1alpha1.Restore
	// first is the Backup that answers status.backupRequest.
	first *v1alpha1.Backup
}

func jobName(restore *v1alpha1.Restore) string { return restore.Name + "-restore" }

// observe does every read of a pass, but for those from the bucket.
func (r *Reconciler) observe(ctx context.Context, restore *v1alpha1.Restore) (w *world, err error) {
	w = &world{restore: restore, now: r.now()}
	if w.cluster, err = find(ctx, r.live, restore, restore.Spec.Destination.ClusterName(), &v1alpha1.PostgresCluster{}); err != nil {
		return nil, err
	}
	jobs := client.Reader(r.writer)
	if w.deleting() || restore.Status.Failure != nil {
		jobs = r.live // a cache may not show yet what was started last
	}
	if w.job, err = workload.Observe(ctx, jobs, r.live, restore, jobName(restore)); err != nil {
		return nil, err
	}
	if wanted := restore.Status.BackupRequest; wanted != nil {
		if w.first, err = find(ctx, r.writer, restore, protocol.BackupName(*wanted), &v1alpha1.Backup{}); err != nil {
			return nil, err
		}
	}
	if err := r.observeLast(ctx, w); err != nil {
		return nil, err
	}
	if err := r.observeLogins(ctx, w); err != nil {
		return nil, err
	}
	return w, r.observeSource(ctx, w)
}

// observeSource reads where the data comes from, while that is still of interest.
func (r *Reconciler) observeSource(ctx context.Context, w *world) (err error) {
	if w.ended() || w.deleting() {
		return nil
	}
	if spec := w.restore.Spec.Source; spec.Backup != nil {
		if w.backup, err = find(ctx, r.writer, w.restore, spec.Backup.Name, &v1alpha1.Backup{}); err != nil {
			return err
		}
	}
	if w.source, err = find(ctx, r.writer, w.restore, w.sourceName(), &v1alpha1.PostgresCluster{}); err != nil {
		return err
	}
	if wanted := w.restore.Spec.Destination.NewCluster; wanted != nil && wanted.Repository != nil {
		if w.archive, err = find(ctx, r.writer, w.restore, wanted.Repository.Name, &v1alpha1.BackupRepository{}); err != nil {
			return err
		}
	}
	w.repository, err = find(ctx, r.writer, w.restore, w.repositoryName(), &v1alpha1.BackupRepository{})
	return err
}

// sourceName is the PostgresCluster that the data is of, should it be there; empty: not known.
func (w *world) sourceName() string {
	switch source := w.restore.Spec.Source; {
	case source.Cluster != nil:
		return source.Cluster.Name
	case w.backup != nil:
		return w.backup.Spec.Cluster.Name
	}
	return ""
}

// find reads an object in the namespace of the Restore; nil if there is none.
func find[T client.Object](ctx context.Context, reader client.Reader, restore *v1alpha1.Restore, name string, into T) (T, error) {
	var none T
	if name == "" {
		return none, nil
	}
	err := reader.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return into, nil
}

// repositoryName is the repository that has the data; empty: not known.
func (w *world) repositoryName() string {
	source := w.restore.Spec.Source
	switch {
	case w.restore.Status.Plan != nil:
		return w.restore.Status.Plan.Repository
	case source.Backup != nil && w.backup != nil && w.backup.Status.Plan != nil:
		return w.backup.Status.Plan.Repository
	case source.Backup != nil:
		return ""
	case source.Repository != nil:
		return source.Repository.Name
	case source.Cluster.Repository != nil:
		return source.Cluster.Repository.Name
	case w.source != nil && w.source.Spec.Archive != nil:
		return w.source.Spec.Archive.Repository.Name
	}
	return ""
}

func (w *world) deleting() bool { return !w.restore.DeletionTimestamp.IsZero() }

// ended says that nothing more will be done for the data.
func (w *world) ended() bool { return w.restore.Status.CompletedAt != nil }

// ours says that this very Restore has made the cluster.
func (w *world) ours() bool {
	return w.cluster != nil && w.cluster.Annotations[v1alpha1.AnnotationRestoredBy] == string(w.restore.UID) &&
		w.cluster.Spec.Bootstrap != nil && w.cluster.Spec.Bootstrap.Restore != nil &&
		w.cluster.Spec.Bootstrap.Restore.Name == w.restore.Name
}

// ran says that the cluster has taken the restored data over: it is somebody's database from then on.
func (w *world) ran() bool {
	return w.cluster != nil && w.restore.Status.Plan != nil && w.cluster.Status.DataGeneration == w.restore.Status.Plan.DataGeneration
}

// answer of the db-controller to our hold, or nil.
func (w *world) answer() *v1alpha1.VolumeLock {
	return protocol.LockFor(w.cluster, w.restore.UID, w.restore.Status.VolumeLockRequest)
}

// clusterReady says that the cluster takes connections, as of its present spec.
func clusterReady(cluster *v1alpha1.PostgresCluster) bool {
	return cluster != nil && protocol.Current(cluster, cluster.Status.ObservedGeneration) &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// stateOf is the cluster's Ready condition in words.
func stateOf(cluster *v1alpha1.PostgresCluster) string {
	condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil {
		return "the db-controller has not looked at it yet"
	}
	return strings.TrimSuffix(strings.TrimSpace(condition.Reason+": "+condition.Message), ":")
}

// failure is why the work must be given up, or nil.
func (w *world) failure() *v1alpha1.RestoreFailure {
	name := w.restore.Spec.Destination.ClusterName()
	made, answer := w.restore.Status.Cluster, w.answer()
	fail := func(reason, format string, args ...any) *v1alpha1.RestoreFailure {
		return &v1alpha1.RestoreFailure{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case w.restore.Status.Failure != nil:
		return w.restore.Status.Failure
	case w.restore.Spec.Cancel && !w.discarding():
		return fail(v1alpha1.ReasonCancelled, "cancelled by spec.cancel")
	case made != nil && (w.cluster == nil || w.cluster.UID != made.UID || !w.cluster.DeletionTimestamp.IsZero()):
		return fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s was deleted before it ran on the restored data; make another Restore", name)
	case w.cluster != nil && !w.inPlace() && !w.ours():
		return fail(v1alpha1.ReasonNameTaken,
			"PostgresCluster %s is there already, and a Restore never touches one: choose another spec.destination.newCluster.name", name)
	case w.takenLogin() != "":
		return fail(v1alpha1.ReasonNameTaken, "Secret %s is there already and belongs to somebody else, and PostgresCluster %s needs that name for its logins: "+
			"delete the Secret, or choose another spec.destination.newCluster.name", w.takenLogin(), name)
	case answer != nil && answer.State == v1alpha1.VolumeLockRefused:
		return fail(v1alpha1.ReasonVolumeLockRefused, "the db-controller refuses the volume: %s", answer.Message)
	case w.job.Foreign:
		return fail(v1alpha1.ReasonNameConflict, "%s", w.job.Message)
	case w.job.Failed && w.job.Ended() && w.restore.Status.Handover == nil:
		reason, message := w.job.FailureReason()
		return fail(reason, "%s", message)
	case w.inPlace():
		return w.failureInPlace()
	}
	return nil
}
