package drill

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// ensureJob makes the Job that looks at the restored cluster.
func (r *Reconciler) ensureJob(ctx context.Context, o *observed) flow.Outcome {
	if o.job.Exists {
		return flow.Next
	}
	if connection := o.cluster.Status.Connection; connection == nil || connection.SuperuserSecret == "" {
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("Waiting for the Secrets of PostgresCluster %s.", o.cluster.Name))
	}
	if err := r.job(o).Ensure(ctx, r.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, looking(o, ""))
}

// job connects to the restored cluster and does nothing else: it has no volume, no bucket and no access to the API server.
func (r *Reconciler) job(o *observed) workload.Job {
	run, connection := o.underWay(), o.cluster.Status.Connection
	task := agentapi.DrillJob{
		Host: connection.Host, MajorVersion: int(o.restore.Status.Plan.MajorVersion), Database: applicationDatabase(o.cluster),
		SuperuserSecret: connection.SuperuserSecret,
	}
	for _, assertion := range o.repo.Spec.Drill.Assertions {
		task.Assertions = append(task.Assertions, agentapi.DrillAssertion(assertion))
	}
	return workload.Job{
		Name: jobName(run), Owner: o.repo, Cluster: run.Name, Component: workload.ComponentBackup,
		Image: o.restore.Status.Plan.Image, Agent: r.Agent, Args: []string{"drill"}, Spec: task,
		ClusterSpec:     &o.cluster.Spec,
		ClientTLSSecret: connection.UpgradeSecret, Secrets: map[string][]string{connection.SuperuserSecret: {"password"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
	}
}

func applicationDatabase(cluster *v1alpha1.PostgresCluster) string {
	if b := cluster.Spec.Bootstrap; b != nil && b.Restore != nil && b.Restore.Database != "" {
		return b.Restore.Database
	}
	return "app"
}

func (r *Reconciler) awaitJob(_ context.Context, o *observed) flow.Outcome {
	if o.job.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, looking(o, o.job.Trouble()))
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

// outcomeOf makes a sentence of what was found. Damage comes first, for it may be why an assertion isn't true.
func outcomeOf(result agentapi.DrillResult, run *v1alpha1.DrillRun, assertions int) (v1alpha1.DrillOutcome, string, string) {
	restored := fmt.Sprintf("Backup %s was restored in %s", run.BackupID, time.Duration(run.RestoreSeconds)*time.Second)
	if run.LastCommit != nil {
		restored += ", with everything until " + run.LastCommit.UTC().Format(time.RFC3339)
	}
	var failed []string
	for _, f := range result.Failed {
		failed = append(failed, fmt.Sprintf("assertion %s: %s", f.Name, f.Message))
	}
	switch {
	case result.CorruptCount > 0:
		text := fmt.Sprintf("%s, but pg_amcheck found %d damaged: %s", restored, result.CorruptCount, strings.Join(result.Corrupt, ", "))
		if result.FailedCount > 0 {
			text += fmt.Sprintf("; false assertions: %d", result.FailedCount)
		}
		return v1alpha1.DrillFailed, v1alpha1.ReasonDataCorrupt, text + "."
	case result.FailedCount > 0:
		return v1alpha1.DrillFailed, v1alpha1.ReasonAssertionFailed, fmt.Sprintf("%s, but %d of %d assertions are false: %s.",
			restored, result.FailedCount, assertions, strings.Join(failed, "; "))
	case assertions == 0:
		return v1alpha1.DrillSucceeded, v1alpha1.ReasonDrilled, restored + "; pg_amcheck found no damage."
	}
	return v1alpha1.DrillSucceeded, v1alpha1.ReasonDrilled, fmt.Sprintf("%s; pg_amcheck found no damage, and %d of %d assertions are true.",
		restored, assertions, assertions)
}

// removeJob deletes the Job, and waits until none of its pods asks the cluster any more.
func (r *Reconciler) removeJob(ctx context.Context, o *observed) flow.Outcome {
	if !o.job.Exists {
		return flow.Next
	}
	if err := workload.Remove(ctx, r.Client, r.Live, o.repo, jobName(o.underWay()), o.job); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Deleting Job %s.", jobName(o.underWay())))
}
