package drillschedule

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
)

// TestADrillThatTheCacheDoesNotShowYetIsNotTakenForADeletedOne: the next cluster would be drilled beside it.
func TestADrillThatTheCacheDoesNotShowYetIsNotTakenForADeletedOne(t *testing.T) {
	schedule := daily(round("…", "")).schedule
	schedule.Namespace, schedule.UID = "demo", "schedule"
	schedule.Spec.ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"drill": "yes"}}
	drill := func(owner types.UID) *v1alpha1.FailoverDrill {
		d := newDrill(schedule, "c0")
		d.Name, d.OwnerReferences[0].UID = "d0", owner
		return d
	}
	for name, test := range map[string]struct {
		live   []client.Object
		result string
	}{
		"it runs":                         {[]client.Object{drill("schedule")}, ""},
		"it was deleted":                  {nil, resultDeleted},
		"another one has its name by now": {[]client.Object{drill("other")}, resultDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			empty := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
			live := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(test.live...).Build()
			r := &Reconciler{Dependencies: manager.Dependencies{Client: empty, Live: live, Now: func() time.Time { return noon }}}
			o, err := r.observe(t.Context(), schedule.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			takeResults(t.Context(), o)
			if got := o.schedule.Status.Round.Clusters[0].Result; got != test.result {
				t.Errorf("the result is %q, want %q", got, test.result)
			}
		})
	}
}
