package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// observed is everything that a pass has seen. Steps change only the status of upgrade.
type observed struct {
	upgrade *v1alpha1.Upgrade
	now     time.Time
	// endedBefore: it had ended before this pass.
	endedBefore bool
	cluster     *v1alpha1.PostgresCluster // nil: there is none of that name, or not the one of the plan
	check       workload.State
	work        workload.State
	backup      *v1alpha1.Backup // that status.backupRequest leads to; nil: it doesn't exist
	// restorable: a backup of the new version has succeeded. It is looked for once the previous data is to be given up.
	restorable bool
	// inspections look at the volumes of the stopped cluster, where files are to be linked.
	inspections []inspection
	// rehearsal is what exists of it, where only a copy is upgraded.
	rehearsal rehearsal
	// others are the Upgrades and Restores of the namespace, where an automatic upgrade is about to stop the cluster.
	others majorupdate.Facts
	// writers have replaced the data of the cluster since, where the upgrade is to be rolled back.
	writers []protocol.Writer
}

func checkJob(u *v1alpha1.Upgrade) string { return u.Name + "-upgrade-check" }
func workJob(u *v1alpha1.Upgrade) string  { return u.Name + workSuffix }

const workSuffix = "-upgrade"

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, upgrade *v1alpha1.Upgrade) (*observed, error) {
	o := &observed{upgrade: upgrade, now: r.Now(), endedBefore: upgrade.Status.CompletedAt != nil}
	jobs := client.Reader(r.Client)
	if o.deleting() || upgrade.Status.Failure != nil {
		jobs = r.Live // a cache may not show yet what was started last
	}
	var err error
	if o.check, err = workload.Observe(ctx, jobs, r.Live, upgrade, checkJob(upgrade)); err != nil {
		return o, err
	}
	if o.work, err = workload.Observe(ctx, jobs, r.Live, upgrade, workJob(upgrade)); err != nil {
		return o, err
	}
	o.check.Explain(ctx, r.Live, upgrade.Namespace)
	o.work.Explain(ctx, r.Live, upgrade.Namespace)
	if err := r.observeCluster(ctx, o); err != nil {
		return o, err
	}
	return o, errors.Join(r.observeBackup(ctx, o), r.observeRestorable(ctx, o), r.observeWriters(ctx, o), r.observeOthers(ctx, o), linker{r}.observeInspections(ctx, o), rehearser{r}.observe(ctx, o))
}

// observeCluster reads past the cache: whoever trusts a lock that has ended writes beside PostgreSQL.
func (r *Reconciler) observeCluster(ctx context.Context, o *observed) error {
	cluster := &v1alpha1.PostgresCluster{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.upgrade.Namespace, Name: o.upgrade.Spec.Cluster.Name}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", o.upgrade.Spec.Cluster.Name, err)
	}
	if plan := o.upgrade.Status.Plan; err == nil && (plan == nil || plan.ClusterUID == cluster.UID) {
		o.cluster = cluster
	}
	return nil
}

func (r *Reconciler) observeBackup(ctx context.Context, o *observed) error {
	request := o.upgrade.Status.BackupRequest
	if request == nil {
		return nil
	}
	backup := &v1alpha1.Backup{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: o.upgrade.Namespace, Name: protocol.BackupName(*request)}, backup)
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.backup = backup
	return err
}

func (o *observed) deleting() bool { return !o.upgrade.DeletionTimestamp.IsZero() }
func (o *observed) ended() bool    { return o.upgrade.Status.CompletedAt != nil }

// upgraded reports that the new version has served clients: they may have written to it, so nothing leads back but a person's decision.
func (o *observed) upgraded() bool {
	plan := o.upgrade.Status.Plan
	return o.upgrade.Status.UpAt != nil || o.lock().RunsNew() || plan != nil && o.lock().RanBefore(plan.ToGeneration)
}

// lock is the one on the volumes of the cluster.
func (o *observed) lock() volumelock.Lock {
	lock := volumelock.Lock{
		Requester: o.upgrade, Status: &o.upgrade.Status.VolumeLockStatus,
		ClusterName: o.upgrade.Spec.Cluster.Name, Cluster: o.cluster, Now: o.now,
	}
	if plan := o.upgrade.Status.Plan; plan != nil {
		lock.ClusterUID = plan.ClusterUID
	}
	return lock
}
