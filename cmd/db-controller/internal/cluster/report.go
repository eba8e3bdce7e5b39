package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/config"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// finding is a condition before it is written.
type finding struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) finding { return finding{metav1.ConditionTrue, reason, message} }
func no(reason, message string) finding  { return finding{metav1.ConditionFalse, reason, message} }
func unknown(reason, message string) finding {
	return finding{metav1.ConditionUnknown, reason, message}
}

// report makes the status say what was seen and how the pass ended. It is pure; decisions were recorded by steps.
func report(w *world, outcome flow.Outcome) {
	status := &w.cluster.Status
	status.ObservedGeneration = w.cluster.Generation
	if w.begun() {
		reportInstances(w)
		status.Selector = labels.SelectorFromSet(map[string]string{
			v1alpha1.LabelCluster: w.cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance,
		}).String()
		status.Connection = config.Connection(w.cluster)
	}
	reportArchive(w)
	conditions := map[string]finding{
		v1alpha1.ConditionReady:          ready(w, outcome),
		v1alpha1.ConditionUpToDate:       upToDate(w, outcome),
		v1alpha1.ConditionArchiving:      archiving(w),
		v1alpha1.ConditionStorageHealthy: space(w),
	}
	if w.wanted() > 1 && w.begun() {
		conditions[v1alpha1.ConditionReplicated] = replicated(w)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionReplicated)
	}
	reportDeclared(w, conditions)
	for kind, found := range conditions {
		flow.SetCondition(&status.Conditions, w.cluster, kind, found.status, found.reason, found.message)
	}
}

// reportUnseen is the report of a pass that could not read what it needs: what was said of the database stays.
func reportUnseen(cluster *v1alpha1.PostgresCluster, outcome flow.Outcome) {
	cluster.Status.ObservedGeneration = cluster.Generation
	flow.SetCondition(&cluster.Status.Conditions, cluster, v1alpha1.ConditionUpToDate, metav1.ConditionUnknown, outcome.Reason, outcome.Message)
}

// ready says whether clients can connect to the primary, and if not, why.
func ready(w *world, outcome flow.Outcome) finding {
	held, message := w.heldBy()
	switch {
	case held != "":
		return no(held, message)
	case w.hibernating() && outcome.Reason == v1alpha1.ReasonHibernated:
		return no(outcome.Reason, outcome.Message)
	case w.serving(w.primary()) && !w.reachable():
		return no(unreachable(w))
	case w.serving(w.primary()) && outcome.Reason == v1alpha1.ReasonAwaitingFinalBackup:
		return yes(outcome.Reason, outcome.Message)
	case w.serving(w.primary()):
		return yes(v1alpha1.ReasonRunning, fmt.Sprintf("PostgreSQL takes connections at %s:%d.",
			w.cluster.Status.Connection.Host, w.cluster.Status.Connection.Port))
	case !outcome.Finished() && outcome.Reason != "":
		return no(outcome.Reason, outcome.Message)
	case !w.begun():
		return no(v1alpha1.ReasonInitializing, "The cluster is being created.")
	}
	return no(notServing(w))
}

// upToDate says whether what runs is what spec asks for.
func upToDate(w *world, outcome flow.Outcome) finding {
	if !w.begun() {
		return no(v1alpha1.ReasonApplying, "Nothing runs yet.")
	}
	if outcome.Stopped() || outcome.Err != nil {
		return no(outcome.Reason, outcome.Message)
	}
	for _, look := range []func(*world) finding{
		versionWish, asleep, configurationRefused, scaling, growing, windowInvalid, restartPending, resizing, replacementPending, configurationPending,
	} {
		if found := look(w); found.reason != "" {
			return w.withProgress(found, outcome)
		}
	}
	return yes(v1alpha1.ReasonCurrent, "What runs is what spec asks for."+w.withNextRestart())
}

// withProgress adds how far a change is that goes from one instance to the next.
func (w *world) withProgress(found finding, outcome flow.Outcome) finding {
	switch outcome.Reason {
	case v1alpha1.ReasonApplying, v1alpha1.ReasonScaling, v1alpha1.ReasonSwitchingOver:
		if w.electing() && outcome.Message != found.message {
			found.message += " " + outcome.Message
		}
	}
	return found
}

// versionWish: another major version is wanted than runs.
func versionWish(w *world) finding {
	wish, runs, name := w.cluster.Spec.Version, w.cluster.Status.MajorVersion, w.cluster.Name
	switch {
	case wish > runs:
		return no(v1alpha1.ReasonVersionPending, fmt.Sprintf(
			"spec.version is %d and PostgreSQL %d runs: an Upgrade gets there: "+
				"{apiVersion: %s, kind: Upgrade, metadata: {name: %s-to-%d, namespace: %s}, spec: {cluster: {name: %s}, version: %d}}",
			wish, runs, v1alpha1.GroupVersion, name, wish, w.cluster.Namespace, name, wish))
	case wish < runs:
		return no(v1alpha1.ReasonVersionBehind, fmt.Sprintf(
			"spec.version is %d and PostgreSQL %d runs, which can't go back: write version: %d", wish, runs, runs))
	}
	return finding{}
}

func configurationRefused(w *world) finding {
	for i := range w.pods {
		pod := &w.pods[i]
		agent := w.agent(w.names.Ordinal(pod.Name))
		if agent == nil || agent.ConfigError == "" || agent.ConfigErrorHash != w.agentConfig().Hash() {
			continue
		}
		if agent.ConfigHash == "" {
			return no(v1alpha1.ReasonConfigurationInvalid, "PostgreSQL can't be started with the configuration: "+agent.ConfigError)
		}
		return no(v1alpha1.ReasonConfigurationInvalid, "The configuration of before stays: "+agent.ConfigError)
	}
	return finding{}
}

func restartPending(w *world) finding {
	var parameters, instances []string
	for _, instance := range w.cluster.Status.Instances {
		if len(instance.PendingRestart) > 0 && !w.waitsForRestart(&instance) {
			parameters, instances = instance.PendingRestart, append(instances, instance.Name)
		}
	}
	if len(instances) == 0 {
		return finding{}
	}
	waits := fmt.Sprintf("%s: waits for a restart of PostgreSQL in %s", commaList(parameters), commaList(instances))
	if window := w.forWindow(); window != "" {
		return no(v1alpha1.ReasonRestartPending, waits+"."+window)
	}
	return no(v1alpha1.ReasonRestartPending, waits+", which is under way.")
}

func replacementPending(w *world) finding {
	for ordinal := range w.wanted() {
		if w.pod(ordinal) == nil {
			return no(v1alpha1.ReasonApplying, fmt.Sprintf("Pod %s doesn't run.", w.names.Instance(ordinal)))
		}
	}
	for ordinal := range w.reach() {
		if changes := w.changes(ordinal); changes != "" {
			return no(v1alpha1.ReasonApplying, fmt.Sprintf("Pod %s has to be replaced for %s.%s", w.names.Instance(ordinal), changes, w.forWindow()))
		}
	}
	return finding{}
}

// configurationPending goes by what the agents have said last: one that doesn't answer for a moment changes nothing.
func configurationPending(w *world) finding {
	for _, instance := range w.cluster.Status.Instances {
		if instance.ConfigHash != w.agentConfig().Hash() {
			return no(v1alpha1.ReasonApplying, fmt.Sprintf("The agent of %s has yet to apply the configuration.", instance.Name))
		}
	}
	return finding{}
}
