package cluster

import (
	"fmt"

	"howdah.dev/apis/v1alpha1"
)

// replicated says whether every replica follows the primary and could take over. It goes by what is published: an agent
// that doesn't answer for a moment changes nothing.
func replicated(w *world) finding {
	status := &w.cluster.Status
	if w.hibernating() {
		return no(v1alpha1.ReasonHibernated, hibernates)
	}
	if w.primary() < 0 || !w.serving(w.primary()) {
		return no(v1alpha1.ReasonElecting, "There is no primary to follow.")
	}
	if found := commitsWaiting(w); found.reason != "" {
		return found
	}
	for i := range status.Instances {
		if i == w.primary() || i >= w.wanted() {
			continue
		}
		if found := follows(w, i, &status.Instances[i]); found.reason != "" {
			return found
		}
	}
	return yes(v1alpha1.ReasonFollowing, fmt.Sprintf("All replicas follow %s and could take over.", w.names.Instance(w.primary())))
}

// commitsWaiting: fewer replicas are there than commits have to be on.
func commitsWaiting(w *world) finding {
	wish, is := w.cluster.Spec.Synchronous, w.cluster.Status.Synchronous
	if wish == nil || is == nil || wish.Durability == v1alpha1.DurabilityPreferred || len(is.Members) >= int(wish.Number) {
		return finding{}
	}
	return no(v1alpha1.ReasonCommitsWaiting, fmt.Sprintf(
		"Commits wait: %d of the replicas must have them, and %d could. Bring replicas back, or write spec.synchronous.durability: Preferred.",
		wish.Number, len(is.Members)))
}

// follows says what is wrong with a replica; an empty reason: nothing.
func follows(w *world, ordinal int, replica *v1alpha1.InstanceStatus) finding {
	switch rejoin := replica.Rejoin; {
	case rejoin != nil && rejoin.Method == "Clone":
		return no(v1alpha1.ReasonCloning, fmt.Sprintf("%s is being cloned%s: %d %%.%s", replica.Name, prefixed(" from ", rejoin.Source),
			rejoin.Percent, prefixed(" The attempt before failed: ", sentence(rejoin.Message))))
	case rejoin != nil:
		return no(v1alpha1.ReasonRewinding, fmt.Sprintf("%s is being made to follow the timeline of the primary%s.%s", replica.Name,
			prefixed(", ", rejoin.Source), prefixed(" The attempt before failed: ", sentence(rejoin.Message))))
	case !replica.Ready:
		_, message := instanceTrouble(w, ordinal)
		return no(v1alpha1.ReasonReplicaDown, message)
	case readsArchive(w.agent(ordinal)):
		return no(v1alpha1.ReasonLagging, w.behind(replica.Name, w.agent(ordinal)))
	case !replica.Streaming:
		return no(v1alpha1.ReasonReplicaDown, fmt.Sprintf("%s doesn't get WAL from the primary.%s", replica.Name, prefixed(" ", sentence(replica.Message))))
	case replica.LagBytes >= w.maxLag():
		return no(v1alpha1.ReasonLagging, fmt.Sprintf("%s is at least %d MiB behind the primary.", replica.Name, replica.LagBytes>>20))
	case !replica.Eligible:
		return no(v1alpha1.ReasonJoining, fmt.Sprintf("%s follows, and the primary has yet to count it among those that may take over.", replica.Name))
	}
	return finding{}
}
