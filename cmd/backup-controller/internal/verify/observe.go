package verify

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

// observed is what one pass has seen.
type observed struct {
	backup *v1alpha1.Backup
	now    time.Time
	// cluster that was backed up, which says where its pods run; nil where it doesn't exist.
	cluster *v1alpha1.PostgresCluster
	// repo that the backup's data lies in; nil where it doesn't exist.
	repo *v1alpha1.BackupRepository
	// news is what the inventory says of its manifest.
	news manifest
	// ahead is the Backup of the same repository that goes first, nil if this one may go.
	ahead *v1alpha1.Backup
	// job of the verification, and previous that of the attempt before it.
	job, previous workload.State
}

// leaving: its data is about to go.
func (o *observed) leaving() bool { return !o.backup.DeletionTimestamp.IsZero() && !o.backup.Spec.Hold }

// clusterSpec is that of the cluster; nil: it doesn't exist.
func (o *observed) clusterSpec() *v1alpha1.PostgresClusterSpec {
	if o.cluster == nil {
		return nil
	}
	return &o.cluster.Spec
}

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, backup *v1alpha1.Backup) (*observed, error) {
	o := &observed{backup: backup, now: r.Now()}
	if !succeeded(backup) {
		return o, nil
	}
	if err := r.observeJobs(ctx, o); err != nil {
		return o, err
	}
	repo := &v1alpha1.BackupRepository{}
	name := backup.Status.Plan.Repository
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: backup.Namespace, Name: name}, repo)
	if apierrors.IsNotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("read BackupRepository %s: %w", name, err)
	}
	o.repo, o.news = repo, r.news(repo, backup)
	if err := r.observeCluster(ctx, o); err != nil {
		return o, err
	}
	if underWay(backup) || !due(backup, repo) {
		return o, nil
	}
	siblings := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, siblings, client.InNamespace(backup.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list Backups: %w", err)
	}
	if first := first(repo, siblings.Items); first != nil && first.UID != backup.UID {
		o.ahead = first
	}
	return o, nil
}

func (r *Reconciler) observeCluster(ctx context.Context, o *observed) error {
	cluster := &v1alpha1.PostgresCluster{}
	name := o.backup.Spec.Cluster.Name
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: o.backup.Namespace, Name: name}, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read PostgresCluster %s: %w", name, err)
	}
	o.cluster = cluster
	return nil
}

func (r *Reconciler) observeJobs(ctx context.Context, o *observed) (err error) {
	verification := o.backup.Status.Verification
	if verification == nil {
		return nil
	}
	if o.job, err = workload.Observe(ctx, r.Client, r.Live, o.backup, jobName(o.backup, verification.Attempt)); err != nil {
		return err
	}
	o.job.ExplainBy(ctx, r.Live, o.backup.Namespace, workload.Resources{Field: "spec.resources"})
	if verification.Attempt > 1 {
		o.previous, err = workload.Observe(ctx, r.Client, r.Live, o.backup, jobName(o.backup, verification.Attempt-1))
	}
	return err
}

// succeeded reports that there is something to verify.
func succeeded(backup *v1alpha1.Backup) bool {
	return backup.Status.Plan != nil && backup.Status.CompletedAt != nil &&
		meta.IsStatusConditionTrue(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
}

// underWay reports that a verification was begun and has not ended.
func underWay(backup *v1alpha1.Backup) bool {
	return backup.Status.Verification != nil && backup.Status.Verification.CompletedAt == nil
}

// due reports that a verification is wanted that was not begun.
func due(backup *v1alpha1.Backup, repo *v1alpha1.BackupRepository) bool {
	return requested(backup) || scheduled(backup, repo)
}

// requested: spec.verify has a token that was not answered.
func requested(backup *v1alpha1.Backup) bool {
	asked, last := backup.Spec.Verify, backup.Status.Verification
	return asked != nil && (last == nil || last.Token == nil || *last.Token != asked.Token)
}

// scheduled: a time of the repository's schedule has come since it was looked at last.
func scheduled(backup *v1alpha1.Backup, repo *v1alpha1.BackupRepository) bool {
	if repo == nil || repo.Spec.Verify == nil || repo.Status.Verification == nil || repo.Status.Verification.LastScheduleTime == nil {
		return false
	}
	return lookedAt(backup).Before(repo.Status.Verification.LastScheduleTime)
}

// lookedAt is when a backup was made, or when its last verification has ended, well or not.
func lookedAt(backup *v1alpha1.Backup) *metav1.Time {
	if last := backup.Status.Verification; last != nil && last.CompletedAt != nil {
		return last.CompletedAt
	}
	return backup.Status.CompletedAt
}

// first is the Backup whose turn it is among those of a repository: who is being verified continues, then who was asked for,
// then who was looked at the longest time ago. Nil: nobody's.
func first(repo *v1alpha1.BackupRepository, all []v1alpha1.Backup) *v1alpha1.Backup {
	var first *v1alpha1.Backup
	for i := range all {
		backup := &all[i]
		if !succeeded(backup) || backup.Status.Plan.Repository != repo.Name || !backup.DeletionTimestamp.IsZero() {
			continue
		}
		if (underWay(backup) || due(backup, repo)) && (first == nil || before(backup, first)) {
			first = backup
		}
	}
	return first
}

func before(a, b *v1alpha1.Backup) bool {
	if running := underWay(a); running != underWay(b) {
		return running
	}
	if asked := requested(a); asked != requested(b) {
		return asked
	}
	if at, other := lookedAt(a), lookedAt(b); !at.Equal(other) {
		return at.Before(other)
	}
	return a.UID < b.UID
}
