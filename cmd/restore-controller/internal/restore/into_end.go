package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// intoFailure is why a restore into a running cluster is given up, or nil. It is pure.
func (o *observed) intoFailure() *v1alpha1.Failure {
	status := &o.restore.Status
	switch {
	case status.Failure != nil:
		return status.Failure
	case o.job.Ended() && o.job.Result(&agentapi.TablesResult{}): // it was committed, whatever has happened since
		return nil
	case o.restore.Spec.Cancel:
		return volumelock.Fail(v1alpha1.ReasonCancelled, "The Restore was cancelled with spec.cancel.")
	case status.IntoCluster == nil:
		return nil
	}
	for _, look := range []func(*observed) *v1alpha1.Failure{targetFailure, copyFailure, intoJobFailure} {
		if failure := look(o); failure != nil {
			return failure
		}
	}
	return nil
}

// targetFailure: the cluster is another one now, or none.
func targetFailure(o *observed) *v1alpha1.Failure {
	if o.cluster != nil && o.cluster.UID == o.restore.Status.Cluster.UID && o.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	return volumelock.Fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s was deleted, or is being deleted. Create another Restore.", o.restore.Status.Cluster.Name)
}

// copyFailure: the copy could not be restored, was deleted, or can't be read by the programs of the running cluster.
func copyFailure(o *observed) *v1alpha1.Failure {
	into, copied := o.intoStatus(), o.into.copy
	switch {
	case copied.Foreign:
		return volumelock.Fail(v1alpha1.ReasonNameConflict, "A Restore named %s already exists and belongs to somebody else. It is not touched. Delete it, or create another Restore.", into.Copy)
	case copied.Restore == nil && into.CopyUID == "":
		return nil
	case copied.Restore == nil, !copied.Restore.DeletionTimestamp.IsZero():
		return volumelock.Fail(v1alpha1.ReasonRestoreFailed, "Restore %s of the temporary copy was deleted before everything was copied. Create another Restore.", into.Copy)
	case copied.Failure() != "":
		condition := meta.FindStatusCondition(copied.Restore.Status.Conditions, v1alpha1.ConditionSucceeded)
		return volumelock.Fail(condition.Reason, "The temporary copy could not be restored: %s", condition.Message)
	}
	if plan := copied.Restore.Status.Plan; plan != nil && plan.MajorVersion > o.cluster.Status.MajorVersion {
		return volumelock.Fail(v1alpha1.ReasonAnotherDatabase, "The backup is of PostgreSQL %d, and PostgresCluster %s runs %d, whose pg_dump can't read it. Upgrade the cluster first, or restore into a new cluster.",
			plan.MajorVersion, o.cluster.Name, o.cluster.Status.MajorVersion)
	}
	return nil
}

func intoJobFailure(o *observed) *v1alpha1.Failure {
	jobs := []workload.State{o.job}
	if o.intoStatus().CheckedAt == nil {
		jobs = append(jobs, o.into.check)
	}
	for i := range jobs {
		job := &jobs[i]
		switch {
		case job.Taken():
			return volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", flow.Sentence(job.Message))
		case job.Failed && job.Ended():
			reason, message := job.FailureReason()
			return volumelock.Fail(reason, "%s", flow.Sentence(message))
		}
	}
	return nil
}

// pinIntoFailure records why it is given up, before anything is deleted. A Job that is stopped may have committed: that is said, as nobody can look any more.
func pinIntoFailure(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Failure != nil {
		return flow.Next
	}
	failure := o.intoFailure()
	if into := o.intoStatus(); into != nil && into.CopyingAt != nil && !o.job.Ended() {
		failure.Message += fmt.Sprintf(" Its Job was copying, and was stopped. Everything was one transaction: look in database %s whether %s exists. If so, it is complete; otherwise, nothing was restored.",
			into.Database, whatOf(o))
	}
	o.restore.Status.Failure = failure
	return flow.Save(v1alpha1.ReasonRollingBack, failure.Message)
}

func concludeInto(_ context.Context, o *observed) flow.Outcome {
	failure := o.restore.Status.Failure
	return flow.Stop(failure.Reason, failure.Message)
}

// intoSummary says what was restored, how long it took, and what was not.
func intoSummary(restore *v1alpha1.Restore) string {
	status, into := &restore.Status, restore.Status.IntoCluster
	if into == nil || into.CommittedAt == nil || status.StartedAt == nil {
		return ""
	}
	text := fmt.Sprintf("%d tables, views and sequences with %d rows were restored into database %s of PostgresCluster %s", into.RestoredCount, into.Rows, into.Database, restore.Spec.Destination.ClusterName())
	if status.Plan != nil {
		text += ", as of " + status.Plan.Target
	}
	text += fmt.Sprintf(". The restore took %s.", into.CommittedAt.Sub(status.StartedAt.Time).Round(time.Second))
	if len(into.NotRestored) > 0 {
		text += fmt.Sprintf(" In the backup, these referred to what was restored, and they no longer exist: %s. Create them again if you need them.", strings.Join(into.NotRestored, ", "))
	}
	if status.Plan != nil {
		text += damaged(status.Plan)
	}
	return text
}
