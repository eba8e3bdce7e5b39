package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// handsOver is an Upgrade that hands another data generation over, and what it was granted.
func handsOver(w *world, generation string, state v1alpha1.VolumeLockState, volumes ...string) {
	request := v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: "u1", Token: "t", Mode: v1alpha1.VolumeLockStopped}
	w.asks = []protocol.LockRequest{{Kind: "Upgrade", Name: "up", UID: "x", Request: request, Handover: &v1alpha1.Handover{
		Token: "t", DataGeneration: generation, SystemIdentifier: "7", MajorVersion: 18, Image: "postgres:18",
	}}}
	answer := v1alpha1.VolumeLock{Kind: "Upgrade", Name: "up", RequesterUID: "x", Token: "t", State: state, AdoptedGeneration: "g9"}
	for _, name := range volumes {
		answer.Volumes = append(answer.Volumes, v1alpha1.LockedVolume{Instance: name, ClaimName: "data-" + name})
	}
	w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{answer}
}

func TestDataThatIsHandedOverBeginsWhereItLies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"on the first volume that was granted": {func(w *world) { handsOver(w, "g2", v1alpha1.VolumeLockGranted, "shop-2", "shop-0", "shop-1") }, "shop-2"},
		"taken back, where it was before": {func(w *world) {
			handsOver(w, "g0", v1alpha1.VolumeLockAdopted)
			w.cluster.Status.DataInstance = "shop-2"
			switchedTo(w, "shop-1")
		}, "shop-2"},
		"taken back in a cluster of an older suite, at the primary": {func(w *world) {
			handsOver(w, "g0", v1alpha1.VolumeLockAdopted)
			switchedTo(w, "shop-1")
		}, "shop-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := trio(c.change)
			outcome := (&Reconciler{}).adoptHandover(t.Context(), w)
			status := w.cluster.Status
			if outcome.Kind != flow.KindSave || status.DataInstance != c.want || status.Primary != c.want {
				t.Errorf("%+v: begins on %s, primary %s", outcome, status.DataInstance, status.Primary)
			}
			if told := w.agentConfig().DataInstance; told != c.want {
				t.Errorf("the agents are told %q", told)
			}
		})
	}
}

func TestAnotherInstanceBeginsOnlyWhenTheLeaseHasGone(t *testing.T) {
	gone := func(w *world) { w.leaseRead, w.lease = true, nil }
	for name, c := range map[string]struct {
		change func(*world)
		want   string
		saves  bool
	}{
		"not with a failover":                    {func(w *world) { switchedTo(w, "shop-1") }, "shop-0", false},
		"the Lease has gone, under the first":    {gone, "shop-0", false},
		"the Lease has gone, under another":      {func(w *world) { switchedTo(w, "shop-1"); gone(w) }, "shop-1", true},
		"the Lease has gone, and all are down":   {func(w *world) { w.agents = nil; w.pods = nil; w.cluster.Status.Primary = "shop-2"; gone(w) }, "shop-2", true},
		"a single instance is asked for nothing": {func(w *world) { *w = *running(nil); w.cluster.Status.DataInstance = "shop-0"; gone(w) }, "shop-0", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := trio(func(w *world) { w.cluster.Status.DataInstance = "shop-0"; tell(w) })
			before := w.agentConfig().Hash()
			c.change(w)
			outcome := (&Reconciler{}).settleBeginning(t.Context(), w)
			if got := w.cluster.Status.DataInstance; got != c.want || (outcome.Kind == flow.KindSave) != c.saves {
				t.Errorf("%s, %+v", got, outcome)
			}
			if changed := w.agentConfig().Hash() != before; changed != c.saves && w.electing() {
				t.Errorf("the configuration changes: %v", changed)
			}
		})
	}
}

func TestWhatThereIsToProtectFromEvictions(t *testing.T) {
	ready := func(w *world, ordinal int, since time.Duration) {
		w.pods[ordinal].Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now.Add(-since)),
		}}
	}
	for name, test := range map[string]struct {
		ready map[int]time.Duration
		want  bool
	}{
		"nothing is ready":                    {nil, false},
		"one has just become ready":           {map[int]time.Duration{0: time.Second}, false},
		"one has, and the others take long":   {map[int]time.Duration{0: 2 * time.Minute}, true},
		"one is not ready yet":                {map[int]time.Duration{0: time.Second, 1: time.Second}, false},
		"all are ready":                       {map[int]time.Duration{0: time.Second, 1: 0, 2: 0}, true},
		"one is lost after it was ready long": {map[int]time.Duration{1: time.Hour, 2: time.Hour}, true},
	} {
		w := trio(func(w *world) {
			for i := range w.pods {
				w.pods[i].Status.Conditions = nil
			}
			for ordinal, since := range test.ready {
				ready(w, ordinal, since)
			}
		})
		if w.protectable() != test.want {
			t.Errorf("%s: %v", name, w.protectable())
		}
	}
}
