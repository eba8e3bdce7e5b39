package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// joiningReasons are those that follow each other while a replica comes to follow; the last of them says that it does.
var joiningReasons = []string{
	v1alpha1.ReasonElecting, v1alpha1.ReasonReplicaDown, v1alpha1.ReasonCloning, v1alpha1.ReasonRewinding, v1alpha1.ReasonJoining,
}

// expected reports that a transition needs no event. Data that was created is started, and people hear of that when it
// runs, or when it can't; and how far a replica has come on its way is seen in its condition.
func expected(old, now metav1.Condition) bool {
	switch {
	case old.Status != now.Status:
		return false
	case old.Reason == v1alpha1.ReasonInitializing && now.Reason == v1alpha1.ReasonStarting:
		return true
	case now.Type == v1alpha1.ConditionReady:
		return false
	}
	return slices.Contains(joiningReasons, old.Reason) && slices.Contains(joiningReasons, now.Reason)
}
