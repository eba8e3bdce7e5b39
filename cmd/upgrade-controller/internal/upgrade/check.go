package upgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// runCheck starts the Job that checks on a copy of the schema, while the cluster serves.
func (r *Reconciler) runCheck(ctx context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.CheckedAt != nil || w.check.Exists {
		return flow.Next
	}
	if w.check.Foreign {
		return flow.Stop(v1alpha1.ReasonNameConflict, w.check.Message)
	}
	if !w.clusterReady() {
		return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("waiting until %s is Ready; it says %s", w.cluster.Name, w.clusterState()))
	}
	plan := w.upgrade.Status.Plan
	spec := r.job(w)
	spec.Host = w.cluster.Status.Connection.Host // whoever is the primary by then
	job := workload.Job{
		Name: checkJob(w.upgrade), Owner: w.upgrade, Cluster: w.cluster.Name, Component: workload.ComponentUpgradeCheck,
		Image: plan.ToImage, Agent: r.agent, Args: []string{"upgrade", "check"}, Spec: spec, Progress: &spec.Object,
		OldImage: plan.FromImage, ConnectionConfigMap: w.cluster.Status.Connection.ConfigMap,
		ClientTLSSecret: w.cluster.Status.Connection.UpgradeSecret,
	}
	if err := job.Ensure(ctx, r.writer); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonChecking, "the check is starting")
}

func (r *Reconciler) job(w *world) agentapi.UpgradeJob {
	plan := w.upgrade.Status.Plan
	return agentapi.UpgradeJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindUpgrade, Resource: "upgrades",
			Namespace: w.upgrade.Namespace, Name: w.upgrade.Name, UID: string(w.upgrade.UID),
		},
		FromVersion: int(plan.FromVersion), ToVersion: int(w.upgrade.Spec.Version),
		FromGeneration: plan.FromGeneration, ToGeneration: plan.ToGeneration,
	}
}

// awaitCheck takes the findings over into status.
func (r *Reconciler) awaitCheck(ctx context.Context, w *world) flow.Outcome {
	status := &w.upgrade.Status
	if status.CheckedAt != nil {
		return flow.Next
	}
	if w.upgrade.Spec.Cancel {
		return r.cancel(w)
	}
	if !w.check.Ended() {
		return flow.Wait(v1alpha1.ReasonChecking, orElse(w.check.Message, "the check runs on a copy of the schema; the cluster serves"))
	}
	if w.check.Failed {
		reason, message := w.check.FailureReason()
		return r.conclude(w, reason, "the check could not be done: "+message)
	}
	var result agentapi.UpgradeCheckResult
	if !w.check.Result(&result) {
		return r.again(ctx, w, checkJob(w.upgrade), w.check)
	}
	status.Findings = findings(result)
	status.CheckedAt = &metav1.Time{Time: r.now()}
	return flow.Save(v1alpha1.ReasonChecking, "the check has ended")
}

// again deletes a Job that has ended but whose result is lost, so that it is made anew; what it did stays done.
func (r *Reconciler) again(ctx context.Context, w *world, name string, state workload.State) flow.Outcome {
	if err := workload.Delete(ctx, r.writer, w.upgrade, name, state); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonRunning, "the result of Job "+name+" can't be read; it runs again")
}

func findings(result agentapi.UpgradeCheckResult) []v1alpha1.Finding {
	var all []v1alpha1.Finding
	for _, f := range result.Findings {
		all = append(all, v1alpha1.Finding{
			Severity: v1alpha1.FindingSeverity(f.Severity), Check: f.Check, Database: f.Database, Message: f.Message,
		})
	}
	return all[:min(len(all), 100)]
}

// obstacles counts the findings that stop an upgrade, and tells the first.
func obstacles(found []v1alpha1.Finding) (int, string) {
	count, first := 0, ""
	for _, f := range found {
		if f.Severity != v1alpha1.FindingError {
			continue
		}
		if count++; count == 1 {
			first = f.Message
		}
	}
	return count, first
}

// judgeFindings ends the upgrade where the check found that it can't work.
func (r *Reconciler) judgeFindings(_ context.Context, w *world) flow.Outcome {
	count, first := obstacles(w.upgrade.Status.Findings)
	if count == 0 {
		return flow.Next
	}
	message := first
	if count > 1 {
		message = fmt.Sprintf("%s (and %d more; see status.findings)", first, count-1)
	}
	return r.conclude(w, v1alpha1.ReasonCheckFailed, message)
}

// finishCheck ends an Upgrade that was only to check.
func (r *Reconciler) finishCheck(_ context.Context, w *world) flow.Outcome {
	w.upgrade.Status.CompletedAt = &metav1.Time{Time: r.now()}
	return flow.Next
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// token of everything that this Upgrade asks for.
func token(u *v1alpha1.Upgrade) string { return protocol.Token(u.UID, 0) }
