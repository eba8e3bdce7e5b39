package upgrade

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// failure is why the upgrade must be given up, or nil. It is pure.
func (o *observed) failure() *v1alpha1.Failure {
	status := &o.upgrade.Status
	switch {
	case status.Failure != nil:
		return status.Failure
	case o.upgrade.Spec.Cancel && status.Handover == nil:
		return volumelock.Fail(v1alpha1.ReasonCancelled, "The Upgrade was cancelled with spec.cancel.")
	}
	for _, look := range []func() *v1alpha1.Failure{o.lockFailure, o.withdrawnFailure, o.checkFailure, o.workFailure} {
		if failure := look(); failure != nil {
			return failure
		}
	}
	return nil
}

func (o *observed) lockFailure() *v1alpha1.Failure {
	if failure := o.lock().Failure(startLimit); failure != nil {
		return failure
	}
	if plan := o.upgrade.Status.Plan; o.lock().Granted() && o.upgrade.Status.Handover == nil && o.cluster.Status.DataGeneration != plan.FromGeneration {
		return volumelock.Fail(v1alpha1.ReasonClusterReplaced,
			"The data of PostgresCluster %s was replaced after the upgrade had been planned. Create another Upgrade.", o.cluster.Name)
	}
	return nil
}

// checkFailure is what the check has found, or that it could not be done.
func (o *observed) checkFailure() *v1alpha1.Failure {
	switch status := &o.upgrade.Status; {
	case status.CheckedAt != nil:
		return obstacleIn(status.Findings)
	case o.check.Taken():
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", flow.Sentence(o.check.Message))
	case o.check.Ended() && o.check.Failed:
		reason, message := o.check.FailureReason()
		return volumelock.Fail(reason, "The check could not be done: %s", flow.Sentence(message))
	}
	return nil
}

func obstacleIn(findings []v1alpha1.Finding) *v1alpha1.Failure {
	count, first := obstacles(findings)
	switch count {
	case 0:
		return nil
	case 1:
		return volumelock.Fail(v1alpha1.ReasonCheckFailed, "%s", flow.Sentence(first))
	}
	return volumelock.Fail(v1alpha1.ReasonCheckFailed, "%s status.findings has %d more.", flow.Sentence(first), count-1)
}

// workFailure is why the Job of the upgrade failed. Once its data was handed over the Job says nothing more.
func (o *observed) workFailure() *v1alpha1.Failure {
	var result agentapi.UpgradeResult
	switch {
	case o.upgrade.Status.Handover != nil:
		return nil
	case o.work.Taken():
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", flow.Sentence(o.work.Message))
	case o.work.Lost(o.now):
		return volumelock.Fail(v1alpha1.ReasonJobFailed, "The upgrade failed: %s", workload.LostMessage)
	case o.work.Ended() && o.work.Failed:
		reason, message := o.work.FailureReason()
		return volumelock.Fail(reason, "The upgrade failed: %s", flow.Sentence(message))
	case o.work.Result(&result) && int32(result.MajorVersion) != o.upgrade.Spec.Version: // there are few versions
		return volumelock.Fail(v1alpha1.ReasonJobFailed, "The upgrade failed: the Job wrote data of PostgreSQL %d instead of %d.",
			result.MajorVersion, o.upgrade.Spec.Version)
	}
	return nil
}

// notTouched completes the message of a failure before the cluster was asked to stop.
func notTouched(message, cluster string) string {
	return fmt.Sprintf("%s PostgresCluster %s was not touched.", message, cluster)
}

// notEnsured gives up where a name of a Job is taken, as the cluster may be stopped for it.
func (o *observed) notEnsured(err error) flow.Outcome {
	message := workload.Taken(err)
	if message == "" {
		return workload.NotEnsured(err)
	}
	o.upgrade.Status.Failure = volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", message)
	return flow.Save(v1alpha1.ReasonRollingBack, message)
}
