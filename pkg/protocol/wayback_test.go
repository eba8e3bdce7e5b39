package protocol

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// replaced are the parts of a Restore and an Upgrade that have replaced g0 by g1.
func replaced() (v1alpha1.Restore, v1alpha1.Upgrade) {
	r, u := v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "r"}}, v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "u"}}
	previous := &v1alpha1.PreviousData{DataGeneration: "g0"}
	r.Status.Cluster, r.Status.Plan, r.Status.Previous = &v1alpha1.CreatedCluster{UID: "c"}, &v1alpha1.RestorePlan{DataGeneration: "g1"}, previous
	u.Status.Plan, u.Status.Previous = &v1alpha1.UpgradePlan{ClusterUID: "c", ToGeneration: "g1"}, previous
	return r, u
}

func TestWhoReplacedTheDataOfAClusterMayBeUndoneUntilThatIsDecidedOrOver(t *testing.T) {
	now := &metav1.Time{Time: metav1.Now().Time}
	for name, c := range map[string]struct {
		restore  func(*v1alpha1.RestoreStatus)
		upgrade  func(*v1alpha1.UpgradeStatus)
		known    bool
		undoable bool
		left     bool
	}{
		"nobody has decided": {func(*v1alpha1.RestoreStatus) {}, func(s *v1alpha1.UpgradeStatus) { s.UpAt, s.CompletedAt = now, now }, true, true, false},
		"it is at work":      {func(*v1alpha1.RestoreStatus) {}, func(*v1alpha1.UpgradeStatus) {}, true, true, false},
		"it is being undone": {
			func(s *v1alpha1.RestoreStatus) { s.Decided = &v1alpha1.DecidedRestore{Decision: v1alpha1.DecisionUndo} },
			func(s *v1alpha1.UpgradeStatus) {
				s.UpAt, s.Decided = now, &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeRollBack}
			}, true, true, false},
		"it is being confirmed": {
			func(s *v1alpha1.RestoreStatus) {
				s.Decided = &v1alpha1.DecidedRestore{Decision: v1alpha1.DecisionConfirm}
			},
			func(s *v1alpha1.UpgradeStatus) {
				s.UpAt, s.Decided = now, &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeConfirm}
			}, true, false, false},
		"it could not be undone": {
			func(s *v1alpha1.RestoreStatus) {
				s.CompletedAt, s.Decided = now, &v1alpha1.DecidedRestore{Decision: v1alpha1.DecisionUndo}
			},
			func(s *v1alpha1.UpgradeStatus) {
				s.UpAt, s.CompletedAt, s.SettledAt, s.Decided = now, now, now, &v1alpha1.DecidedUpgrade{Decision: v1alpha1.UpgradeRollBack}
			}, true, false, true},
		"it gave the previous data up, or failed": {
			func(s *v1alpha1.RestoreStatus) { s.Plan.DiscardsPrevious = true },
			func(s *v1alpha1.UpgradeStatus) { s.CompletedAt = now }, true, false, false},
		"it is of another cluster": {
			func(s *v1alpha1.RestoreStatus) { s.Cluster.UID = "d" }, func(s *v1alpha1.UpgradeStatus) { s.Plan.ClusterUID = "d" }, false, false, false},
		"it has replaced nothing": {
			func(s *v1alpha1.RestoreStatus) { s.Previous = nil }, func(s *v1alpha1.UpgradeStatus) { s.Previous = nil }, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, u := replaced()
			c.restore(&r.Status)
			c.upgrade(&u.Status)
			cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
			writers := Writers(cluster, []v1alpha1.Restore{r}, []v1alpha1.Upgrade{u})
			if known := len(writers) == 2; known != c.known || !known && len(writers) > 0 {
				t.Fatalf("%+v", writers)
			}
			for _, w := range writers {
				if w.Undoable != c.undoable || w.Left != c.left || w.Wrote != "g1" || w.Previous != "g0" {
					t.Errorf("%+v", w)
				}
			}
			cluster.Status.ReleasedDataGenerations = []string{"g0"}
			for _, w := range Writers(cluster, []v1alpha1.Restore{r}, []v1alpha1.Upgrade{u}) {
				if w.Left {
					t.Errorf("nothing is left of what was released: %+v", w)
				}
			}
		})
	}
}
