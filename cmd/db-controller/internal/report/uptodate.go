package report

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/imagechange"
	"howdah.dev/howdah/cmd/db-controller/internal/minorupdate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/cmd/db-controller/internal/restartwindow"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/cmd/db-controller/internal/volumemove"
	"howdah.dev/howdah/pkg/flow"
)

// upToDate says whether what runs is what spec requests.
func upToDate(o *observed.Cluster, outcome flow.Outcome) condition.Finding {
	if !o.Begun() {
		return condition.False(v1alpha1.ReasonApplying, "Nothing runs yet.")
	}
	if outcome.Stopped() || outcome.Err != nil {
		return condition.False(outcome.Reason, outcome.Message)
	}
	for _, look := range []func(*observed.Cluster) condition.Finding{
		desiredVersion, imagechange.Condition, hibernation.Condition, configurationRefused, scaling.Condition, storage.Growing, volumemove.Condition, restartwindow.Condition, restartPending, Resizing, adjusting, replacementPending, configurationPending,
	} {
		if found := look(o); found.Reason != "" {
			return withConflicts(o, withProgress(o, found, outcome))
		}
	}
	return withConflicts(o, condition.True(v1alpha1.ReasonCurrent, "Everything in spec is in effect."+withNextRestart(o)))
}

// withConflicts adds what the cluster continues without, as somebody else has its name.
func withConflicts(o *observed.Cluster, found condition.Finding) condition.Finding {
	conflicts := strings.Join(observed.PassedOver(o), " ")
	switch {
	case conflicts == "":
		return found
	case found.Status == metav1.ConditionTrue:
		return condition.False(v1alpha1.ReasonNameConflict, conflicts)
	}
	found.Message += " " + conflicts
	return found
}

// withProgress adds how far a change is that goes from one instance to the next.
func withProgress(o *observed.Cluster, found condition.Finding, outcome flow.Outcome) condition.Finding {
	switch outcome.Reason {
	case v1alpha1.ReasonApplying, v1alpha1.ReasonScaling, v1alpha1.ReasonSwitchingOver:
		if o.Electing() && outcome.Message != found.Message {
			found.Message += " " + outcome.Message
		}
	}
	return found
}

// desiredVersion: another major version is wanted than runs.
func desiredVersion(o *observed.Cluster) condition.Finding {
	spec, runs, name := o.Cluster.Spec.Version, o.Cluster.Status.MajorVersion, o.Cluster.Name
	switch {
	case spec > runs && o.MajorUpdate != "":
		return condition.False(v1alpha1.ReasonVersionPending, fmt.Sprintf("PostgreSQL %d runs, and spec.version is %d. %s", runs, spec, o.MajorUpdate))
	case spec > runs:
		return condition.False(v1alpha1.ReasonVersionPending, fmt.Sprintf(
			"PostgreSQL %d runs, and spec.version is %d. Create an Upgrade: "+
				"{apiVersion: %s, kind: Upgrade, metadata: {name: %s-to-%d, namespace: %s}, spec: {cluster: {name: %s}, version: %d}}.",
			runs, spec, v1alpha1.GroupVersion, name, spec, o.Cluster.Namespace, name, spec))
	case spec < runs:
		advice := fmt.Sprintf("Set version: %d.", runs)
		if image := o.Cluster.Spec.Image; image != "" && image != o.Cluster.Status.Image {
			advice = fmt.Sprintf("Set version: %d together with image: %s, which runs; %s in spec.image has another version.", runs, o.Cluster.Status.Image, image)
		}
		return condition.False(v1alpha1.ReasonVersionBehind, fmt.Sprintf(
			"PostgreSQL %d is running and can't be downgraded to %d (spec.version). %s", runs, spec, advice))
	}
	return condition.Finding{}
}

func configurationRefused(o *observed.Cluster) condition.Finding {
	for i := range o.Pods {
		pod := &o.Pods[i]
		agent := o.Agent(o.Names.Ordinal(pod.Name))
		if agent == nil || agent.ConfigError == "" || agent.ConfigErrorHash != desired.AgentConfig(o).Hash() {
			continue
		}
		if agent.ConfigHash == "" {
			return condition.False(v1alpha1.ReasonConfigurationInvalid, "PostgreSQL can't start with the configuration: "+phrase.Sentence(agent.ConfigError))
		}
		return condition.False(v1alpha1.ReasonConfigurationInvalid, "The previous configuration stays: "+phrase.Sentence(agent.ConfigError))
	}
	return condition.Finding{}
}

func restartPending(o *observed.Cluster) condition.Finding {
	var parameters, instances []string
	for _, instance := range o.Cluster.Status.Instances {
		if len(instance.PendingRestart) > 0 && !desired.WaitsForRestart(o, &instance) {
			parameters, instances = instance.PendingRestart, append(instances, instance.Name)
		}
	}
	if len(instances) == 0 {
		return condition.Finding{}
	}
	if wait := cmp.Or(restartwindow.Wait(o), phrase.Prefixed(" ", o.RolloutWait)); wait != "" {
		return condition.False(v1alpha1.ReasonRestartPending, fmt.Sprintf("A change of %s waits for a restart of PostgreSQL in %s.%s",
			phrase.List(parameters), phrase.List(instances), wait))
	}
	return condition.False(v1alpha1.ReasonRestartPending, fmt.Sprintf("PostgreSQL is being restarted in %s for a change of %s.",
		phrase.List(instances), phrase.List(parameters)))
}

func replacementPending(o *observed.Cluster) condition.Finding {
	for ordinal := range o.Wanted() {
		if o.Pod(ordinal) == nil {
			return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("Pod %s isn't running.", o.Names.Instance(ordinal)))
		}
	}
	for ordinal := range o.Reach() {
		if changes := desired.Changes(o, ordinal); changes != "" {
			return replacement(o, ordinal, changes)
		}
	}
	return condition.Finding{}
}

// replacement says what the replacement of a pod waits for.
func replacement(o *observed.Cluster, ordinal int, changes string) condition.Finding {
	message := fmt.Sprintf("Pod %s has to be replaced for %s.", o.Names.Instance(ordinal), changes)
	hold := minorupdate.Hold(o)
	switch {
	case !imagechange.AwaitsUpdate(o, ordinal) && restartwindow.Wait(o) != "":
		return condition.False(v1alpha1.ReasonRestartPending, message+restartwindow.Wait(o))
	case imagechange.AwaitsUpdate(o, ordinal) && hold != "":
		return condition.False(v1alpha1.ReasonRestartPending, message+" It is an automatic update, which does not continue: "+hold)
	case o.RolloutWait != "":
		return condition.False(v1alpha1.ReasonRestartPending, message+" "+o.RolloutWait)
	}
	return condition.False(v1alpha1.ReasonApplying, message)
}

// configurationPending goes by what the agents have said last: one that doesn't respond for a moment changes nothing.
func configurationPending(o *observed.Cluster) condition.Finding {
	for _, instance := range o.Cluster.Status.Instances {
		if instance.ConfigHash != desired.AgentConfig(o).Hash() {
			if silent := availability.Silent(o, o.Pod(o.Names.Ordinal(instance.Name))); silent != "" {
				return condition.False(v1alpha1.ReasonAgentUnreachable, fmt.Sprintf(
					"The agent of %s doesn't respond, so it isn't known whether it has applied the configuration. %s", instance.Name, silent))
			}
			return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("The agent of %s has yet to apply the configuration.", instance.Name))
		}
	}
	return condition.Finding{}
}

// Resizing says which pod is yet to have its other resources.
func Resizing(o *observed.Cluster) condition.Finding {
	for i := range o.Pods {
		if state, _ := desired.ResizeOf(o, &o.Pods[i]); state != statefulset.ResizeNot {
			return condition.False(v1alpha1.ReasonApplying, fmt.Sprintf("Pod %s is being resized without a restart.", o.Pods[i].Name))
		}
	}
	return condition.Finding{}
}

// adjusting says which pod is yet to have the requests that were decided automatically, and why.
func adjusting(o *observed.Cluster) condition.Finding {
	applied := o.Cluster.Status.AppliedRequests()
	for i := range o.Pods {
		pod := &o.Pods[i]
		if applied == nil || desired.Changes(o, o.Names.Ordinal(pod.Name)) != "" {
			continue
		}
		if state, _ := statefulset.Adjust(pod, o.Cluster, o.Now); state != statefulset.ResizeDue {
			continue
		}
		message := fmt.Sprintf("Pod %s is given other requests without a restart. %s", pod.Name, applied.Reason)
		if applied.Refused != "" {
			message = fmt.Sprintf("Pod %s returns to its previous requests: %s", pod.Name, phrase.Sentence(applied.Refused))
		}
		return condition.False(v1alpha1.ReasonApplying, message)
	}
	return condition.Finding{}
}

// withNextRestart says what the next restart will bring.
func withNextRestart(o *observed.Cluster) string {
	for i := range o.Cluster.Status.Instances {
		if instance := &o.Cluster.Status.Instances[i]; desired.WaitsForRestart(o, instance) {
			return fmt.Sprintf(" %s takes its value for the new memory at the next restart; nothing is restarted for it.", phrase.List(instance.PendingRestart))
		}
	}
	return ""
}
