package drill

import (
	"context"
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// ensureJob makes the Job that looks at the restored cluster, and makes it again if its node is lost.
func (r *Reconciler) ensureJob(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.job.Lost(o.now):
		return r.removeJob(ctx, o)
	case o.job.Exists:
		return flow.Next
	}
	check := r.check(o)
	if !check.Possible() {
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("Waiting for the Secrets of PostgresCluster %s.", o.copy.Cluster.Name))
	}
	if err := check.Job().Ensure(ctx, r.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, looking(o, ""))
}

func (r *Reconciler) check(o *observed) clustercopy.Check {
	plan := o.copy.Restore.Status.Plan
	return clustercopy.Check{
		Name: jobName(o.underWay()), Owner: o.repo, Component: workload.ComponentBackup, Agent: r.Agent, Image: plan.Image,
		MajorVersion: plan.MajorVersion, Cluster: o.copy.Cluster, Assertions: o.repo.Spec.Drill.Assertions,
	}
}

func (r *Reconciler) awaitJob(_ context.Context, o *observed) flow.Outcome {
	if o.job.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, o.job.Reason(v1alpha1.ReasonRunning), looking(o, o.job.Trouble()))
}

func looking(o *observed, trouble string) string {
	return strings.TrimSpace(fmt.Sprintf("Job %s checks the restored cluster. %s", jobName(o.underWay()), trouble))
}

// takeResult takes what the Job's pod has said.
func (r *Reconciler) takeResult(_ context.Context, o *observed) flow.Outcome {
	result := agentapi.DrillResult{}
	if !o.job.Result(&result) {
		o.end(v1alpha1.DrillFailed, v1alpha1.ReasonJobFailed, fmt.Sprintf("Job %s has ended, but its result can't be read.", jobName(o.underWay())))
		return flow.Save(v1alpha1.ReasonJobFailed, o.underWay().Message)
	}
	o.underWay().CheckSeconds = result.Seconds
	o.end(outcomeOf(result, o.underWay(), len(o.repo.Spec.Drill.Assertions)))
	return flow.Save(o.underWay().Reason, o.underWay().Message)
}

// outcomeOf makes a sentence of what was found.
func outcomeOf(result agentapi.DrillResult, run *v1alpha1.DrillRun, assertions int) (v1alpha1.DrillOutcome, string, string) {
	restored := fmt.Sprintf("Backup %s was restored in %s", run.BackupID, time.Duration(run.RestoreSeconds)*time.Second)
	if run.LastCommit != nil {
		restored += ", with everything until " + run.LastCommit.UTC().Format(time.RFC3339)
	}
	reason, found := clustercopy.Verdict(result, assertions)
	if reason != "" {
		return v1alpha1.DrillFailed, reason, restored + found
	}
	return v1alpha1.DrillSucceeded, v1alpha1.ReasonDrilled, restored + found
}

// removeJob deletes the Job, and waits until none of its pods asks the cluster any more.
func (r *Reconciler) removeJob(ctx context.Context, o *observed) flow.Outcome {
	if !o.job.Exists {
		return flow.Next
	}
	if err := clustercopy.RemoveCheck(ctx, r.Client, r.Live, o.repo, jobName(o.underWay()), o.job, o.now); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Job %s.", jobName(o.underWay())))
}
