package upgrade

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// checker looks before the cluster is stopped.
type checker struct{ *Reconciler }

// runCheck starts the Job that checks on a copy of the schema, while the cluster serves.
func (r checker) runCheck(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.upgrade.Status.CheckedAt != nil:
		return flow.Next
	case o.check.Lost(o.now):
		return r.checkAgain(ctx, o, nodeLost)
	case o.check.Exists && o.cluster.Status.Connection != nil && r.checkJob(o).Misplaced(o.check):
		return r.checkAgain(ctx, o, placedAnew)
	case o.check.Exists:
		return flow.Next
	}
	if outcome := clusterIsReady(o, r.Images); !outcome.Finished() {
		return outcome
	}
	if err := r.checkJob(o).Ensure(ctx, r.Client); err != nil {
		return o.notEnsured(err)
	}
	return flow.Wait(v1alpha1.ReasonChecking, "The Job that checks the upgrade is starting.")
}

// deleteCheck deletes the Job that checks. It writes nothing, so nobody waits until a pod on a lost node is known to have ended.
func (r checker) deleteCheck(ctx context.Context, o *observed) error {
	if o.check.Lost(o.now) {
		return workload.Abandon(ctx, r.Client, o.upgrade, checkJob(o.upgrade), o.check)
	}
	return workload.Delete(ctx, r.Client, o.upgrade, checkJob(o.upgrade), o.check)
}

func (r checker) checkJob(o *observed) workload.Job {
	plan := o.upgrade.Status.Plan
	spec := r.job(o)
	spec.Host = o.cluster.Status.Connection.Host // whoever is the primary by then
	spec.DropLogicalSlots = o.upgrade.Spec.DropLogicalSlots
	spec.Parameters = parameters(o.cluster)
	return workload.Job{
		Name: checkJob(o.upgrade), Owner: o.upgrade, Cluster: o.cluster.Name, Component: workload.ComponentUpgradeCheck,
		Image: plan.ToImage, Agent: r.Agent, Args: []string{"upgrade", "check"}, Spec: spec, Progress: &spec.Object,
		Replaceable: true, OldImage: plan.FromImage, ClusterSpec: &o.cluster.Spec, ConnectionConfigMap: o.cluster.Status.Connection.ConfigMap,
		ClientTLSSecret: o.cluster.Status.Connection.UpgradeSecret, Resources: resourcesOf(o.cluster, checking),
	}
}

func parameters(of *v1alpha1.PostgresCluster) map[string]string {
	all := map[string]string{}
	for name, value := range of.Spec.PostgreSQL.Parameters {
		all[name] = string(value)
	}
	return all
}

func (r *Reconciler) job(o *observed) agentapi.UpgradeJob {
	plan := o.upgrade.Status.Plan
	return agentapi.UpgradeJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindUpgrade, Resource: "upgrades",
			Namespace: o.upgrade.Namespace, Name: o.upgrade.Name, UID: string(o.upgrade.UID),
		},
		FromVersion: int(plan.FromVersion), ToVersion: int(o.upgrade.Spec.Version),
		FromGeneration: plan.FromGeneration, ToGeneration: plan.ToGeneration,
		PreloadLibraries: string(o.cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"]),
		OutputPlugins:    string(o.cluster.Spec.PostgreSQL.Parameters["output_plugin_libraries"]),
	}
}

// awaitCheck takes the findings over into status. That the check failed is failure's.
func (r checker) awaitCheck(ctx context.Context, o *observed) flow.Outcome {
	status := &o.upgrade.Status
	if status.CheckedAt != nil {
		return flow.Next
	}
	if !o.check.Ended() {
		return o.check.Await(v1alpha1.ReasonChecking, underWay("The check runs on a copy of the schema while the cluster serves.", o.check))
	}
	var result agentapi.UpgradeCheckResult
	if !o.check.Result(&result) {
		return r.checkAgain(ctx, o, resultLost)
	}
	status.Findings = slices.Concat(findings(result), o.lacksSpace(result.CopyBytes))
	status.Findings = status.Findings[:min(len(status.Findings), mostFindings)]
	status.CheckedAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonChecking, "The check has ended.")
}

// Why a Job is created again.
const (
	resultLost = "The result of Job %s can't be read, so it runs again."
	nodeLost   = "The node of Job %s doesn't respond, so the check begins again elsewhere."
	placedAnew = "Job %s waited for a node, and is being created again with the new settings of the cluster."
)

// checkAgain deletes the check, so that it is created anew.
func (r checker) checkAgain(ctx context.Context, o *observed, why string) flow.Outcome {
	if err := r.deleteCheck(ctx, o); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonChecking, fmt.Sprintf(why, checkJob(o.upgrade)))
}

// again deletes a Job, so that it is created anew; what it did stays done.
func (r *Reconciler) again(ctx context.Context, o *observed, name string, state workload.State, why string) flow.Outcome {
	if err := workload.Delete(ctx, r.Client, o.upgrade, name, state); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonRunning, fmt.Sprintf(why, name))
}

// underWay says what a Job does, or what keeps it from doing it.
func underWay(does string, state workload.State) string {
	if state.Message == "" {
		return does
	}
	return flow.Sentence(state.Message)
}

func findings(result agentapi.UpgradeCheckResult) []v1alpha1.Finding {
	var all []v1alpha1.Finding
	for _, f := range result.Findings {
		all = append(all, v1alpha1.Finding{
			Severity: v1alpha1.FindingSeverity(f.Severity), Check: f.Check, Database: f.Database, Message: flow.Sentence(f.Message), // a part of some is what a program said
		})
	}
	return all
}

// mostFindings is how many the status has room for. Those that stop an upgrade are first, but for space.
const mostFindings = 100

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

// token of everything that this Upgrade requests.
func token(u *v1alpha1.Upgrade) string { return protocol.Token(u.UID, 0) }
