package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheConditionSaysUntilWhenNothingIsRepairedAndWhatWouldBe(t *testing.T) {
	pausedIn := func(d time.Duration) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			from, until := metav1.NewTime(observedtest.Noon.Add(d)), metav1.NewTime(observedtest.Noon.Add(d+time.Hour))
			o.Cluster.Spec.Repair = &v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}
		}
	}
	held := func(o *observed.Cluster) { o.Agents["shop-2"].HeldBack = "The data is not cloned." }
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		status metav1.ConditionStatus // empty: there is no condition
		says   string
	}{
		"nothing is said":     {func(o *observed.Cluster) { o.Cluster.Spec.Repair = &v1alpha1.Repair{KeepReplacedCopies: true} }, "", ""},
		"it is paused":        {pausedIn(-time.Minute), metav1.ConditionFalse, "paused until 2026-03-01T12:59:00Z: an instance that fails is not restarted, rewound or cloned. To end the pause now"},
		"something is held":   {observedtest.All(pausedIn(-time.Minute), held), metav1.ConditionFalse, "Held back on shop-2: The data is not cloned. To end the pause now"},
		"it will be paused":   {pausedIn(time.Minute), metav1.ConditionTrue, "That is paused from 2026-03-01T12:01:00Z until 2026-03-01T13:01:00Z."},
		"the pause has ended": {pausedIn(-time.Hour), metav1.ConditionTrue, "where they need it."},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAutomaticRepair}}
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionAutomaticRepair)
			if c.status == "" {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got == nil || got.Status != c.status || !strings.Contains(got.Message, c.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
