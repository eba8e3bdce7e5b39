package report

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestAnIncompleteAnalyzeIsAConditionUntilItIsComplete(t *testing.T) {
	o := observedtest.Running(nil)
	for _, c := range []struct {
		left, messages []string
		reason         string
	}{
		{nil, nil, ""}, // it never had such work
		{[]string{"Statistics"}, nil, v1alpha1.ReasonMaintaining},
		{nil, []string{"statistics could not be collected everywhere: no memory"}, v1alpha1.ReasonMaintenanceIncomplete},
		{nil, nil, v1alpha1.ReasonCurrent},
	} {
		agent := o.PrimaryAgent()
		if agent == nil {
			t.Fatal("there is no primary")
		}
		agent.Maintenance, agent.MaintenanceMessages = c.left, c.messages
		Write(o, flow.Next)
		got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionMaintained)
		switch {
		case c.reason == "" && got == nil:
		case got == nil || got.Reason != c.reason || (got.Status == metav1.ConditionTrue) != (c.reason == v1alpha1.ReasonCurrent):
			t.Errorf("%v %v: %+v", c.left, c.messages, got)
		}
	}
}
