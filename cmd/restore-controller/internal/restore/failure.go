package restore

import (
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// failure is why the restore must be given up, or nil. It is pure.
func (o *observed) failure() *v1alpha1.Failure {
	switch status := &o.restore.Status; {
	case status.Failure != nil:
		return status.Failure
	case o.restore.Spec.Cancel && !o.discarding():
		return volumelock.Fail(v1alpha1.ReasonCancelled, "The Restore was cancelled with spec.cancel.")
	}
	looks := []func() *v1alpha1.Failure{o.lockFailure, o.nameFailure, o.jobFailure}
	if o.inPlace() {
		looks = append(looks, o.dataFailure, o.safetyBackupFailure, o.uncleanFailure)
	}
	for _, look := range looks {
		if failure := look(); failure != nil {
			return failure
		}
	}
	return nil
}

func (o *observed) lockFailure() *v1alpha1.Failure {
	limit := startLimit
	if !o.inPlace() || o.discarding() { // there is nothing to go back to
		limit = time.Duration(0)
	}
	return o.lock().Failure(limit)
}

// nameFailure: what the new cluster is to be called, or its Secrets, belongs to somebody else.
func (o *observed) nameFailure() *v1alpha1.Failure {
	name := o.restore.Spec.Destination.ClusterName()
	switch {
	case o.cluster != nil && !o.inPlace() && !o.ours():
		return volumelock.Fail(v1alpha1.ReasonNameTaken,
			"PostgresCluster %s already exists, and a Restore never touches one. Choose another spec.destination.newCluster.name.", name)
	case o.takenLogin() != "":
		return volumelock.Fail(v1alpha1.ReasonNameTaken, "Secret %s already exists and belongs to somebody else, and PostgresCluster %s needs that name for its logins. "+
			"Delete the Secret, or choose another spec.destination.newCluster.name.", o.takenLogin(), name)
	}
	return nil
}

func (o *observed) jobFailure() *v1alpha1.Failure {
	switch {
	case o.job.Taken():
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", flow.Sentence(o.job.Message))
	case o.job.Lost(o.now) && o.restore.Status.Handover == nil && !o.discarding():
		return volumelock.Fail(v1alpha1.ReasonJobFailed, "The restore failed: %s", workload.LostMessage)
	case o.job.Failed && o.job.Ended() && o.restore.Status.Handover == nil:
		reason, message := o.job.FailureReason()
		return volumelock.Fail(reason, "The restore failed: %s", flow.Sentence(message))
	}
	return nil
}

// dataFailure: the cluster doesn't run the database of the plan any more.
func (o *observed) dataFailure() *v1alpha1.Failure {
	plan := o.restore.Status.Plan
	if o.restore.Status.Previous != nil || plan == nil || o.lock().Gone() {
		return nil
	}
	now := o.cluster.Status
	switch {
	case now.DataGeneration == plan.DataGeneration: // as after a backup of etcd was restored
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s already runs on the data of this Restore, whose status doesn't say what was before, as it is when etcd was "+
			"restored from a backup. So nothing is restored, and nothing can be undone. Create another Restore.", o.cluster.Name)
	case !o.lock().Granted():
		return nil
	case now.SystemIdentifier != plan.SystemIdentifier || now.MajorVersion != plan.MajorVersion:
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced,
			"The data of PostgresCluster %s was replaced after the restore had been planned. Create another Restore.", o.cluster.Name)
	case plan.DiscardsPrevious && !o.archivesBesideSafetyBackup():
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s no longer archives to the repository of the safety backup %s, so what was written since then can't be restored from it. "+
			"Nothing is discarded. Create another Restore.", o.cluster.Name, o.restore.Status.SafetyBackup)
	case plan.DiscardsPrevious && !o.safe():
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced, "The safety backup %s is not of the data that PostgresCluster %s runs on now, which was replaced since, or no longer exists, "+
			"so nothing is discarded. Create another Restore.", o.restore.Status.SafetyBackup, o.cluster.Name)
	}
	return nil
}

// archivesBesideSafetyBackup reports that what was written after the safety backup is archived in its repository.
func (o *observed) archivesBesideSafetyBackup() bool {
	archive := o.cluster.Spec.Archive
	return o.safety == nil || archive != nil && o.safety.Status.Plan != nil && o.safety.Status.Plan.Repository == archive.Repository.Name
}

// safe reports that the safety backup is of the very data that the cluster runs on. An undo or another Restore that came first leads to data with the
// same system identifier.
func (o *observed) safe() bool {
	now := o.cluster.Status
	return o.safety != nil && protocol.Restorable(protocol.Lineage(now.SystemIdentifier, now.DataGeneration), "", []v1alpha1.Backup{*o.safety})
}

func (o *observed) safetyBackupFailure() *v1alpha1.Failure {
	status := &o.restore.Status
	if status.VolumeLockRequest != nil || status.BackupRequest == nil {
		return nil
	}
	outcome, message := protocol.BackupOutcomeFor(o.first, status.BackupRequest)
	if outcome != protocol.BackupFailed {
		return nil
	}
	return volumelock.Fail(v1alpha1.ReasonSafetyBackupFailed, "The safety backup %s failed. %s", o.first.Name, flow.Sentence(message))
}
