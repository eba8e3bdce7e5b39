package report

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// replicated says whether every replica follows the primary and could take over. It goes by what is published: an agent
// that doesn't respond for a moment changes nothing.
func replicated(o *observed.Cluster) condition.Finding {
	status := &o.Cluster.Status
	if hibernation.Hibernating(o) {
		return condition.False(v1alpha1.ReasonHibernated, hibernation.Message)
	}
	if o.Primary() < 0 || !o.Serving(o.Primary()) {
		return condition.False(v1alpha1.ReasonElecting, "There is no primary to follow.")
	}
	if found := durabilityReduced(o); found.Reason != "" {
		return found
	}
	if found := commitsWaiting(o); found.Reason != "" {
		return found
	}
	for i := range status.Instances {
		if i == o.Primary() || i >= o.Wanted() {
			continue
		}
		if found := follows(o, i, &status.Instances[i]); found.Reason != "" {
			return found
		}
	}
	primary, text := o.Names.Instance(o.Primary()), "All replicas follow %s and could take over."
	if heirs(o) == 0 {
		text = "No other instance could take over from %s."
	}
	return condition.True(v1alpha1.ReasonFollowing, fmt.Sprintf(text, primary)+delayedReplicas(o))
}

// heirs are how many replicas there are that are to be able to take over.
func heirs(o *observed.Cluster) (count int) {
	for ordinal := range o.Wanted() {
		if ordinal != o.Primary() && !availability.Delayed(o, o.Names.Instance(ordinal)) {
			count++
		}
	}
	return count
}

// delayedReplicas says which of the replicas can't take over, because they are to replay late.
func delayedReplicas(o *observed.Cluster) (text string) {
	for _, late := range o.Cluster.Spec.DelayedReplicas {
		switch ordinal := o.Names.Ordinal(late.Name); {
		case ordinal < 0 || ordinal >= o.Wanted():
		case ordinal == o.Primary():
			text += fmt.Sprintf(" %s is the primary: it becomes a delayed replica (spec.delayedReplicas) with the next switchover, kubectl howdah switchover %s.", late.Name, o.Cluster.Name)
		default:
			text += fmt.Sprintf(" %s is a delayed replica (%s) and doesn't take over.", late.Name, late.Delay.Duration)
		}
	}
	return text
}

// durabilityReduced: the replicas of replaced data are being built, and commits don't wait for that. It says how far they are.
func durabilityReduced(o *observed.Cluster) condition.Finding {
	wanted, is := o.Cluster.Spec.Synchronous, o.Cluster.Status.Synchronous
	if wanted == nil || is == nil || is.ReducedSince == nil {
		return condition.Finding{}
	}
	text := fmt.Sprintf("Since %s, commits wait for %d replicas instead of %d, because those are being built after the data was replaced "+
		"(spec.synchronous.duringRebuild: Degrade). If %s is lost meanwhile, so are the commits that only it has. This ends automatically once %d replicas can confirm commits.",
		is.ReducedSince.UTC().Format(time.RFC3339), is.Quorum, wanted.Number, o.Names.Instance(o.Primary()), wanted.Number)
	for i := range o.Cluster.Status.Instances {
		if i == o.Primary() || i >= o.Wanted() {
			continue
		}
		if found := follows(o, i, &o.Cluster.Status.Instances[i]); found.Reason != "" {
			text += " " + found.Message
		}
	}
	return condition.False(v1alpha1.ReasonDurabilityReduced, text)
}

// commitsWaiting: fewer replicas are there than commits have to be on.
func commitsWaiting(o *observed.Cluster) condition.Finding {
	wanted, is := o.Cluster.Spec.Synchronous, o.Cluster.Status.Synchronous
	if wanted == nil || is == nil || wanted.Durability == v1alpha1.DurabilityPreferred || len(is.Members) >= int(wanted.Number) {
		return condition.Finding{}
	}
	return condition.False(v1alpha1.ReasonCommitsWaiting, fmt.Sprintf(
		"Commits wait: %d replicas must confirm them, and only %d can. Bring replicas back, or set spec.synchronous.durability: Preferred.",
		wanted.Number, len(is.Members)))
}

// follows says what is wrong with a replica; an empty reason: nothing.
func follows(o *observed.Cluster, ordinal int, replica *v1alpha1.InstanceStatus) condition.Finding {
	switch rejoin := replica.Rejoin; {
	case o.Cluster.Status.StorageMove.Leaving() == replica.Name:
		return condition.False(v1alpha1.ReasonStorageMoving, fmt.Sprintf("%s leaves its volume for a new one.", replica.Name))
	case replica.Fenced:
		return condition.False(v1alpha1.ReasonFenced, fmt.Sprintf("%s is fenced: its PostgreSQL is stopped until it is removed from spec.failover.fenced.", replica.Name))
	case rejoin != nil && rejoin.Method == "Clone":
		return condition.False(v1alpha1.ReasonCloning, fmt.Sprintf("%s is being cloned%s: %d %%.%s", replica.Name, phrase.Prefixed(" from ", rejoin.Source),
			rejoin.Percent, phrase.Prefixed(" The previous attempt failed: ", phrase.Sentence(rejoin.Message))))
	case rejoin != nil:
		return condition.False(v1alpha1.ReasonRewinding, fmt.Sprintf("%s is being rewound to follow the primary%s.%s", replica.Name,
			phrase.Prefixed(", ", rejoin.Source), phrase.Prefixed(" The previous attempt failed: ", phrase.Sentence(rejoin.Message))))
	case !replica.Ready:
		_, message := availability.InstanceTrouble(o, ordinal)
		return condition.False(v1alpha1.ReasonReplicaDown, message)
	case availability.Delayed(o, replica.Name):
		return condition.Finding{}
	case availability.ReadsArchive(o.Agent(ordinal)):
		return condition.False(v1alpha1.ReasonLagging, availability.Lags(o, replica.Name, o.Agent(ordinal)))
	case !replica.Streaming:
		return condition.False(v1alpha1.ReasonReplicaDown, fmt.Sprintf("%s doesn't receive WAL from the primary.%s", replica.Name, phrase.Prefixed(" ", phrase.Sentence(replica.Message))))
	case replica.LagBytes >= availability.MaxLag(o) && overdue(o, o.Agent(ordinal)):
		return condition.False(v1alpha1.ReasonLagging, fmt.Sprintf("%s lags at least %d MiB behind the primary.", replica.Name, replica.LagBytes>>20))
	case !replica.Eligible:
		return condition.False(v1alpha1.ReasonJoining, fmt.Sprintf("%s follows the primary, but is not a member yet, so it can't take over.", replica.Name))
	}
	return condition.Finding{}
}

// overdue: what a replica lacks is not only what the primary wrote a moment ago. Where its agent doesn't respond, status counts.
func overdue(o *observed.Cluster, agent *agentapi.Status) bool {
	return agent == nil || agent.Replication == nil || agent.Replication.Overdue() >= availability.MaxLag(o)
}
