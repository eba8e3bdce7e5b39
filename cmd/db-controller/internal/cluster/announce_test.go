package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestWhatFollowsFromWhatWasAnnouncedNeedsNoEvent(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}
	}
	replicated := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReplicated, Status: status, Reason: reason}
	}
	for name, c := range map[string]struct {
		old, now metav1.Condition
		expected bool
	}{
		"a replica that makes progress":         {replicated("False", "ReplicaDown"), replicated("False", "Cloning"), true},
		"a replica that follows":                {replicated("False", "Cloning"), replicated("True", "Following"), false},
		"a replica that is lost":                {replicated("True", "Following"), replicated("False", "ReplicaDown"), false},
		"something worse":                       {replicated("False", "Cloning"), replicated("False", "CommitsWaiting"), false},
		"an election, which the summary is of":  {ready("False", "Electing"), ready("False", "ReplicaDown"), false},
		"a start after the data was created":    {ready("False", "Initializing"), ready("False", "Starting"), true},
		"a start that fails":                    {ready("False", "Starting"), ready("False", "Unschedulable"), false},
		"a start of what has been running once": {ready("True", "Running"), ready("False", "Starting"), false},
	} {
		if got := expected(c.old, c.now); got != c.expected {
			t.Errorf("%s: %t", name, got)
		}
	}
}
