package upgrade

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// world is everything that a pass has seen. Steps change only the status of upgrade.
type world struct {
	upgrade *v1alpha1.Upgrade
	cluster *v1alpha1.PostgresCluster // nil: there is none of that name, or not the one of the plan
	gone    bool                      // the cluster of the plan doesn't exist any more
	check   workload.State
	work    workload.State
	backup  *v1alpha1.Backup // that answers status.backupRequest; nil: not there
}

func checkJob(u *v1alpha1.Upgrade) string { return u.Name + "-upgrade-check" }
func workJob(u *v1alpha1.Upgrade) string  { return u.Name + workSuffix }

const workSuffix = "-upgrade"

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, upgrade *v1alpha1.Upgrade) (*world, error) {
	w := &world{upgrade: upgrade}
	jobs := client.Reader(r.writer)
	if w.deleting() || w.rollingBack() {
		jobs = r.live // a cache may not show yet what was started last
	}
	var err error
	if w.check, err = workload.Observe(ctx, jobs, r.live, upgrade, checkJob(upgrade)); err != nil {
		return nil, err
	}
	if w.work, err = workload.Observe(ctx, jobs, r.live, upgrade, workJob(upgrade)); err != nil {
		return nil, err
	}
	if err := r.observeCluster(ctx, w); err != nil {
		return nil, err
	}
	return w, r.observeBackup(ctx, w)
}

// observeCluster reads past the cache: who goes by a hold that is over writes beside PostgreSQL.
func (r *Reconciler) observeCluster(ctx context.Context, w *world) error {
	cluster := &v1alpha1.PostgresCluster{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: w.upgrade.Namespace, Name: w.upgrade.Spec.Cluster.Name}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", w.upgrade.Spec.Cluster.Name, err)
	}
	plan := w.upgrade.Status.Plan
	if apierrors.IsNotFound(err) || plan != nil && plan.ClusterUID != cluster.UID {
		w.gone = plan != nil
		return nil
	}
	w.cluster = cluster
	return nil
}

func (r *Reconciler) observeBackup(ctx context.Context, w *world) error {
	wanted := w.upgrade.Status.BackupRequest
	if wanted == nil {
		return nil
	}
	backup := &v1alpha1.Backup{}
	err := r.writer.Get(ctx, client.ObjectKey{Namespace: w.upgrade.Namespace, Name: protocol.BackupName(*wanted)}, backup)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.backup = backup
	return err
}

func (w *world) deleting() bool    { return !w.upgrade.DeletionTimestamp.IsZero() }
func (w *world) finished() bool    { return w.upgrade.Status.CompletedAt != nil }
func (w *world) rollingBack() bool { return w.upgrade.Status.RollingBack != "" }

// handedOver reports that the new version runs for good: from here there is no way back by deleting the Upgrade.
func (w *world) handedOver() bool { return w.upgrade.Status.UpAt != nil }

// answer of the db-controller to our hold, or nil.
func (w *world) answer() *v1alpha1.VolumeLock {
	return protocol.LockFor(w.cluster, w.upgrade.UID, w.upgrade.Status.VolumeLockRequest)
}

// clusterReady reports that the cluster takes connections, as of its present spec.
func (w *world) clusterReady() bool {
	return w.cluster != nil && protocol.Current(w.cluster, w.cluster.Status.ObservedGeneration) &&
		meta.IsStatusConditionTrue(w.cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// clusterState is the cluster's Ready condition in words.
func (w *world) clusterState() string {
	condition := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil {
		return "the db-controller has not looked at it yet"
	}
	return strings.TrimSpace(condition.Reason + ": " + condition.Message)
}
