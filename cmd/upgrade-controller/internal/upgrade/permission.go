package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// permissionPause is how often an automatic upgrade that waits looks again at what nothing tells it of.
const permissionPause = 15 * time.Second

// priorAttempt tells the request for the backup before an automatic upgrade from the other two.
const priorAttempt = 2

// waitsForPermission: an automatic upgrade has been checked, and has asked nobody to stop the cluster yet.
func (o *observed) waitsForPermission() bool {
	status := o.status()
	return o.upgrade.Spec.Automatic && !o.upgrade.Spec.CheckOnly && status.CheckedAt != nil && status.VolumeLockRequest == nil && status.Handover == nil &&
		status.Failure == nil && status.DownAt == nil && !o.ended() && !o.deleting() && o.cluster != nil
}

// observeOthers reads past the cache who else works on the cluster: a Restore that a cache doesn't show yet must not meet an upgrade.
func (r *Reconciler) observeOthers(ctx context.Context, o *observed) (err error) {
	if o.waitsForPermission() {
		o.others, err = readFacts(ctx, r.Live, o.cluster)
		o.others.Now = o.now
	}
	return err
}

// readFacts reads what belongs to the namespace of a cluster.
func readFacts(ctx context.Context, reader client.Reader, cluster *v1alpha1.PostgresCluster) (majorupdate.Facts, error) {
	upgrades, restores := &v1alpha1.UpgradeList{}, &v1alpha1.RestoreList{}
	if err := reader.List(ctx, upgrades, client.InNamespace(cluster.Namespace)); err != nil {
		return majorupdate.Facts{}, fmt.Errorf("list Upgrades: %w", err)
	}
	if err := reader.List(ctx, restores, client.InNamespace(cluster.Namespace)); err != nil {
		return majorupdate.Facts{}, fmt.Errorf("list Restores: %w", err)
	}
	return majorupdate.Facts{Cluster: cluster, Upgrades: upgrades.Items, Restores: restores.Items}, nil
}

// withdrawnFailure is why an automatic upgrade has no object any more: spec requests another version, or other data runs. Once it has
// requested the volumes it continues.
func (o *observed) withdrawnFailure() *v1alpha1.Failure {
	plan := o.status().Plan
	if !o.waitsForPermission() || plan == nil {
		return nil
	}
	spec, status := &o.cluster.Spec, &o.cluster.Status
	switch {
	case spec.Version != o.upgrade.Spec.Version:
		return volumelock.Fail(v1alpha1.ReasonCancelled, "spec.version of the PostgresCluster is %d by now, and not %d.", spec.Version, o.upgrade.Spec.Version)
	case metav1.IsControlledBy(o.upgrade, o.cluster) && spec.Image != o.upgrade.Spec.Image:
		return volumelock.Fail(v1alpha1.ReasonCancelled, "spec.image of the PostgresCluster was changed after the check.")
	case status.DataGeneration != plan.FromGeneration:
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced, "The data of the PostgresCluster was replaced after the upgrade had been planned.")
	}
	return nil
}

// requestPriorBackup requests a backup of what runs before an automatic upgrade stops it.
func requestPriorBackup(_ context.Context, o *observed) flow.Outcome {
	status := o.status()
	if !o.waitsForPermission() || status.PriorBackup != "" || status.BackupRequest != nil || o.cluster.Spec.Archive == nil {
		return flow.Next
	}
	status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, Token: protocol.Token(o.upgrade.UID, priorAttempt), Purpose: v1alpha1.PurposeSafety,
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf("A backup of PostgreSQL %d is requested before the cluster is stopped.", status.Plan.FromVersion))
}

// awaitPriorBackup waits for it. If it fails, nothing is stopped.
func awaitPriorBackup(_ context.Context, o *observed) flow.Outcome {
	status := o.status()
	if !o.waitsForPermission() || status.BackupRequest == nil {
		return flow.Next
	}
	if o.cluster.Spec.Archive == nil {
		status.BackupRequest = nil
		return flow.Save(v1alpha1.ReasonAwaitingBackup, "The PostgresCluster has no repository any more, so no backup is taken.")
	}
	outcome, message := protocol.BackupOutcomeFor(o.backup, status.BackupRequest)
	switch outcome {
	case protocol.BackupSucceeded:
		status.PriorBackup, status.BackupRequest = o.backup.Name, nil
		return flow.Save(v1alpha1.ReasonAwaitingWindow, "Backup "+o.backup.Name+" has succeeded.")
	case protocol.BackupFailed:
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf(
			"Backup %s failed, so nothing is stopped. %s When that is fixed, delete the Backup, and another one is taken.", o.backup.Name, flow.Sentence(message)))
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, "A backup is being taken before the cluster is stopped. "+flow.Sentence(message))
}

// awaitPermission has an automatic upgrade wait until the policy of its cluster lets it stop that: what was true when it was created may
// not be any more.
func awaitPermission(_ context.Context, o *observed) flow.Outcome {
	if !o.waitsForPermission() {
		return flow.Next
	}
	wait, _ := o.others.Wait()
	if wait == "" {
		wait = o.others.Obstacle(o.upgrade.UID)
	}
	if wait == "" {
		return flow.Next
	}
	return flow.Poll(permissionPause, v1alpha1.ReasonAwaitingWindow, "The check has found no obstacle, and nothing is stopped yet. "+wait)
}

// withdrawQueued has an automatic upgrade request the volumes no longer once its policy wouldn't let it, or a person has paused the cluster: whoever
// works on the cluster first may need longer than the window lasts. Once the cluster is being stopped, the upgrade continues.
func withdrawQueued(_ context.Context, o *observed) flow.Outcome {
	response := o.lock().Response()
	if !o.upgrade.Spec.Automatic || response == nil || response.State != v1alpha1.VolumeLockQueued || response.StoppingSince != nil {
		return flow.Next
	}
	facts := majorupdate.Facts{Cluster: o.cluster, Now: o.now}
	wait, _ := facts.Wait()
	if wait = cmp.Or(wait, facts.Paused()); wait == "" {
		outcome := o.lock().Await()
		return flow.Poll(permissionPause, outcome.Reason, outcome.Message) // nothing tells of the end of a window
	}
	o.status().VolumeLockRequest = nil
	return flow.Save(v1alpha1.ReasonAwaitingWindow, "The volumes are no longer requested, and nothing was stopped. "+wait)
}
