package upgrade

import (
	"context"
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// requestBackup requests the first backup of the new lineage. The way back by an older backup ends with the major version.
func (r *Reconciler) requestBackup(_ context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.BackupRequest != nil || o.cluster.Spec.Archive == nil {
		return flow.Next
	}
	o.upgrade.Status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, Token: token(o.upgrade), Purpose: v1alpha1.PurposeFirst,
	}
	return flow.Save(v1alpha1.ReasonAwaitingBackup, "The first backup of the new version is requested.")
}

// awaitReady waits until the new version accepts connections, should it be down again. Nothing leads back by itself.
func (r *Reconciler) awaitReady(_ context.Context, o *observed) flow.Outcome {
	if volumelock.Ready(o.cluster) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonFinishing, fmt.Sprintf(
		"PostgreSQL %d has served clients since %s, so the previous data is not brought back. Waiting until PostgresCluster %s accepts connections again. It says: %s",
		o.upgrade.Spec.Version, o.upgrade.Status.UpAt.UTC().Format(time.RFC3339), o.cluster.Name, volumelock.State(o.cluster)))
}

// awaitMaintenance waits until extensions and statistics are up to date.
func (r *Reconciler) awaitMaintenance(_ context.Context, o *observed) flow.Outcome {
	if left := o.cluster.Status.Maintenance; len(left) > 0 {
		return flow.Wait(v1alpha1.ReasonFinishing, fmt.Sprintf("The new version runs. Still to be brought up to date: %s.", strings.Join(left, ", ")))
	}
	return flow.Next
}

// awaitBackup waits for the first backup. Its failure doesn't undo the upgrade: it is requested again.
func (r *Reconciler) awaitBackup(_ context.Context, o *observed) flow.Outcome {
	request := o.upgrade.Status.BackupRequest
	if request == nil {
		return flow.Next
	}
	outcome, message := protocol.BackupOutcomeFor(o.backup, request)
	message = flow.Sentence(message)
	switch outcome {
	case protocol.BackupSucceeded:
		return flow.Next
	case protocol.BackupFailed:
		return flow.Wait(v1alpha1.ReasonAwaitingBackup, fmt.Sprintf(
			"The new version runs, but its first backup failed. %s When that is fixed, delete Backup %s, and another one is taken.", message, o.backup.Name))
	}
	return flow.Wait(v1alpha1.ReasonAwaitingBackup, "The new version runs, and its first backup is being taken. "+message)
}
