package restore

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// observed is everything that a pass has seen. Steps change only the status of restore.
type observed struct {
	restore *v1alpha1.Restore
	now     time.Time
	// endedBefore: it had ended before this pass.
	endedBefore bool
	// cluster that the Restore creates or restores in place, or that has its name; nil: there is none.
	cluster *v1alpha1.PostgresCluster
	// source Backup and PostgresCluster, and the repository that has the data; nil: it doesn't exist.
	backup     *v1alpha1.Backup
	source     *v1alpha1.PostgresCluster
	repository *v1alpha1.BackupRepository
	// archive is the repository that spec.destination.newCluster names; nil: none is named, or it doesn't exist.
	archive *v1alpha1.BackupRepository
	// logins are the existing ones of the Secrets that the new cluster needs, by name.
	logins map[string]*corev1.Secret
	job    workload.State
	// last Restore that says how long it took; nil: none.
	last *v1alpha1.Restore
	// safety is the Backup of what was given up, where it is to be discarded.
	safety *v1alpha1.Backup
	// first is the Backup that status.backupRequest leads to.
	first *v1alpha1.Backup
	// restorable: a backup of the restored data has succeeded; previousRestorable: one of the previous data has. They are looked for while there is
	// previous data to give up.
	restorable, previousRestorable bool
	// previousDoubt says why the archive of the previous data may not lead to its end; empty: it does. It is read along with them.
	previousDoubt string
	// into is what there is of a restore into a running cluster.
	into intoSeen
	// writers have replaced the data of the cluster since, where the Restore is to be undone.
	writers []protocol.Writer
}

func jobName(restore *v1alpha1.Restore) string { return restore.Name + "-restore" }

// observe does every read of a pass, but for those from the bucket.
func (r *Reconciler) observe(ctx context.Context, restore *v1alpha1.Restore) (o *observed, err error) {
	o = &observed{restore: restore, now: r.Now(), endedBefore: restore.Status.CompletedAt != nil}
	if o.cluster, err = find(ctx, r.Live, restore, restore.Spec.Destination.ClusterName(), &v1alpha1.PostgresCluster{}); err != nil {
		return o, err
	}
	jobs := client.Reader(r.Client)
	if o.deleting() || restore.Status.Failure != nil {
		jobs = r.Live // a cache may not show yet what was started last
	}
	if o.job, err = workload.Observe(ctx, jobs, r.Live, restore, jobName(restore)); err != nil {
		return o, err
	}
	o.job.Explain(ctx, r.Live, restore.Namespace)
	if request := restore.Status.BackupRequest; request != nil {
		if o.first, err = find(ctx, r.Client, restore, protocol.BackupName(*request), &v1alpha1.Backup{}); err != nil {
			return o, err
		}
	}
	if name := restore.Status.SafetyBackup; name != "" && !o.ended() {
		if o.safety, err = find(ctx, r.Client, restore, name, &v1alpha1.Backup{}); err != nil {
			return o, err
		}
	}
	for _, read := range []func(context.Context, *observed) error{r.observeWriters, r.observeRestorable, r.observeLast, r.observeLogins, r.observeSource, intoRestorer{r}.observe} {
		if err := read(ctx, o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// observeSource reads where the data comes from, while that is still of interest.
func (r *Reconciler) observeSource(ctx context.Context, o *observed) (err error) {
	if o.ended() || o.deleting() || o.intoCluster() != nil { // the copy has a Restore of its own
		return nil
	}
	if spec := o.restore.Spec.Source; spec.Backup != nil {
		if o.backup, err = find(ctx, r.Client, o.restore, spec.Backup.Name, &v1alpha1.Backup{}); err != nil {
			return err
		}
	}
	if o.source, err = find(ctx, r.Client, o.restore, o.sourceName(), &v1alpha1.PostgresCluster{}); err != nil {
		return err
	}
	if wanted := o.restore.Spec.Destination.NewCluster; wanted != nil && wanted.Repository != nil {
		if o.archive, err = find(ctx, r.Client, o.restore, wanted.Repository.Name, &v1alpha1.BackupRepository{}); err != nil {
			return err
		}
	}
	o.repository, err = find(ctx, r.Client, o.restore, o.repositoryName(), &v1alpha1.BackupRepository{})
	return err
}

// sourceName is the PostgresCluster that the data is of, should it exist; empty: not known.
func (o *observed) sourceName() string {
	switch source := o.restore.Spec.Source; {
	case source.Cluster != nil:
		return source.Cluster.Name
	case o.backup != nil:
		return o.backup.Spec.Cluster.Name
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
func (o *observed) repositoryName() string {
	source := o.restore.Spec.Source
	switch {
	case o.restore.Status.Plan != nil:
		return o.restore.Status.Plan.Repository
	case source.Backup != nil && o.backup != nil && o.backup.Status.Plan != nil:
		return o.backup.Status.Plan.Repository
	case source.Backup != nil:
		return ""
	case source.Repository != nil:
		return source.Repository.Name
	case source.Cluster.Repository != nil:
		return source.Cluster.Repository.Name
	case o.source != nil && o.source.Spec.Archive != nil:
		return o.source.Spec.Archive.Repository.Name
	}
	return ""
}

func (o *observed) deleting() bool { return !o.restore.DeletionTimestamp.IsZero() }

// ended says that nothing more will be done for the data.
func (o *observed) ended() bool { return o.restore.Status.CompletedAt != nil }

// ours says that this very Restore has created the cluster.
func (o *observed) ours() bool {
	return o.cluster != nil && o.cluster.Annotations[v1alpha1.AnnotationRestoredBy] == string(o.restore.UID) &&
		o.cluster.Spec.Bootstrap != nil && o.cluster.Spec.Bootstrap.Restore != nil &&
		o.cluster.Spec.Bootstrap.Restore.Name == o.restore.Name
}

// ran says that the cluster has taken the restored data over: it is somebody's database from then on.
func (o *observed) ran() bool {
	return o.cluster != nil && o.restore.Status.Plan != nil && o.cluster.Status.DataGeneration == o.restore.Status.Plan.DataGeneration
}

// lock is the one on the volumes of the cluster.
func (o *observed) lock() volumelock.Lock {
	lock := volumelock.Lock{
		Requester: o.restore, Status: &o.restore.Status.VolumeLockStatus,
		ClusterName: o.restore.Spec.Destination.ClusterName(), Cluster: o.cluster, Now: o.now,
	}
	if created := o.restore.Status.Cluster; created != nil {
		lock.ClusterUID = created.UID
	}
	return lock
}
