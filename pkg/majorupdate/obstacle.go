package majorupdate

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// Obstacle says why nothing begins now, though its time has come; empty: it may. own is the UID of an Upgrade that is to continue itself.
func (f Facts) Obstacle(own types.UID) string {
	for _, look := range []func(types.UID) string{f.clusterObstacle, f.restoreObstacle, f.upgradeObstacle} {
		if obstacle := look(own); obstacle != "" {
			return obstacle
		}
	}
	return ""
}

func (f Facts) clusterObstacle(own types.UID) string {
	status := &f.Cluster.Status
	ahead := protocol.LockAhead(f.Cluster, own)
	switch {
	case !f.Cluster.DeletionTimestamp.IsZero():
		return "The cluster is being deleted."
	case f.Paused() != "":
		return f.Paused()
	case ahead != nil:
		return fmt.Sprintf("It waits until %s %s gives the volumes back.", ahead.Kind, ahead.Name)
	case status.ImageChange != nil:
		return fmt.Sprintf("It waits until the change to %s has reached every instance.", status.ImageChange.To)
	case !volumelock.Ready(f.Cluster):
		return "It waits until the cluster is Ready."
	case meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionReplicated):
		return "It waits until all replicas follow."
	}
	return ""
}

// Paused says how a person keeps the cluster from being upgraded automatically; empty: nobody does.
func (f Facts) Paused() string {
	spec := &f.Cluster.Spec
	switch {
	case spec.Hibernate:
		return "It waits until spec.hibernate is false."
	case spec.Failover != nil && spec.Failover.PausedUntil != nil && f.Now.Before(spec.Failover.PausedUntil.Time):
		return fmt.Sprintf("It waits until failover is no longer paused, at %s.", spec.Failover.PausedUntil.UTC().Format(time.RFC3339))
	case spec.Repair.Paused(f.Now):
		return fmt.Sprintf("It waits until repairs are no longer paused, at %s.", spec.Repair.PausedUntil.UTC().Format(time.RFC3339))
	}
	return ""
}

// restoreObstacle: a Restore of the cluster is under way, or can still be undone.
func (f Facts) restoreObstacle(types.UID) string {
	for i := range f.Restores {
		restore := &f.Restores[i]
		if restore.Spec.Destination.ClusterName() == f.Cluster.Name && restore.Spec.Mode != v1alpha1.RestorePlanOnly && restore.Status.CompletedAt == nil {
			return fmt.Sprintf("It waits until Restore %s has ended.", restore.Name)
		}
	}
	return ""
}

// upgradeObstacle: another Upgrade of the cluster is under way or can still be rolled back, or a person has created one for the same.
func (f Facts) upgradeObstacle(own types.UID) string {
	for i := range f.Upgrades {
		upgrade := &f.Upgrades[i]
		status := &upgrade.Status
		automatic := metav1.IsControlledBy(upgrade, f.Cluster)
		switch {
		case upgrade.Spec.Cluster.Name != f.Cluster.Name, upgrade.UID == own, upgrade.Spec.Rehearsal != nil, upgrade.Spec.CheckOnly:
		case status.Plan != nil && status.Plan.ClusterUID != f.Cluster.UID: // of a former cluster of that name
		case status.CompletedAt == nil:
			return fmt.Sprintf("It waits until Upgrade %s has ended.", upgrade.Name)
		case status.UpAt != nil && status.SettledAt == nil:
			return fmt.Sprintf("It waits until Upgrade %s is confirmed or rolled back.", upgrade.Name)
		case !automatic && upgrade.Spec.Version > f.Cluster.Status.MajorVersion:
			return fmt.Sprintf("It waits as long as Upgrade %s exists, which a person has created. Delete that, or create another one.", upgrade.Name)
		}
	}
	return ""
}
