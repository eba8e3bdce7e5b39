package volumelock_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

// newUndo is of an Upgrade from g0 on volume v1 of shop-1 to g1, which the cluster runs.
func newUndo(change func(*v1alpha1.PostgresCluster)) volumelock.Undo {
	lock := newLock(v1alpha1.VolumeLock{})
	lock.Status.VolumeLockRequest = nil
	lock.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", VolumeUID: "v1", MajorVersion: 17}
	status := &lock.Cluster.Status
	status.DataGeneration, status.MajorVersion = "g1", 18
	status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-0", VolumeUID: "v0"}, {Name: "shop-1", VolumeUID: "v1"}}
	if change != nil {
		change(lock.Cluster)
	}
	return volumelock.Undo{Lock: lock, Wrote: "g1", Kind: "Upgrade", NewData: "PostgreSQL 18", Reason: v1alpha1.ReasonRollingBack}
}

func TestAnUndoStopsNothingWhereThePreviousDataIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.PostgresCluster)
		want   flow.Kind
	}{
		"the volume is there":             {nil, flow.KindSave},
		"it is another one of its name":   {func(c *v1alpha1.PostgresCluster) { c.Status.Instances[1].VolumeUID = "v9" }, flow.KindStop},
		"it is not known which one it is": {func(c *v1alpha1.PostgresCluster) { c.Status.Instances[1].VolumeUID = "" }, flow.KindSave},
		"the instance no longer exists": {func(c *v1alpha1.PostgresCluster) {
			c.Spec.Instances, c.Status.Instances = 2, c.Status.Instances[:1]
		}, flow.KindStop},
		"it was removed, and its volume is kept": {func(c *v1alpha1.PostgresCluster) {
			c.Spec.Instances, c.Status.Instances = 1, c.Status.Instances[:1]
		}, flow.KindWait},
		"a later Upgrade was confirmed": {func(c *v1alpha1.PostgresCluster) {
			c.Status.DataGeneration, c.Status.MajorVersion, c.Status.ReleasedDataGenerations = "g2", 19, []string{"g1"}
		}, flow.KindStop},
	} {
		t.Run(name, func(t *testing.T) {
			undo := newUndo(c.change)
			got := undo.Request()
			if got.Kind != c.want || (undo.Status.VolumeLockRequest != nil) != (c.want == flow.KindSave) {
				t.Errorf("%+v, requested %v", got, undo.Status.VolumeLockRequest)
			}
			if c.want == flow.KindStop && got.Reason != v1alpha1.ReasonUndoImpossible {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAnUndoWaitsForLaterOnesOnlyAsLongAsTheyLeadBack(t *testing.T) {
	upgrade := protocol.Writer{Kind: "Upgrade", Name: "to-19", Wrote: "g2", Previous: "g1", Undoable: true}
	restore := protocol.Writer{Kind: "Restore", Name: "later", Wrote: "g3", Previous: "g2", Undoable: true}
	decided, settled, unknown := restore, upgrade, restore
	decided.Decided, settled.Undoable, unknown.Previous = true, false, "g9"
	for name, c := range map[string]struct {
		runs    string
		notUp   bool
		writers []protocol.Writer
		want    string // of a refusal or, where it waits, the end of what it says
		waits   bool
	}{
		"an Upgrade":                         {"g2", false, []protocol.Writer{upgrade}, "first set spec.decision: RollBack of Upgrade to-19.", true},
		"a Restore after an Upgrade":         {"g3", false, []protocol.Writer{upgrade, restore}, "first set spec.decision: Undo of Restore later.", true},
		"that is already being undone":       {"g3", false, []protocol.Writer{upgrade, decided}, "Waiting until Restore later is undone.", true},
		"an Upgrade that was settled":        {"g2", false, []protocol.Writer{settled}, "because Upgrade to-19 replaced it and can no longer be undone.", false},
		"a Restore after such an Upgrade":    {"g3", false, []protocol.Writer{settled, restore}, "because Upgrade to-19 replaced it and can no longer be undone.", false},
		"a Restore of other data":            {"g3", false, []protocol.Writer{upgrade, unknown}, "because no Restore or Upgrade can undo data generation g9.", false},
		"one that no longer exists":          {"g3", false, []protocol.Writer{upgrade}, "because no Restore or Upgrade can undo data generation g3.", false},
		"nobody, while a person may decide":  {"g3", true, nil, "Waiting until it accepts connections.", true},
		"one that leads back to itself":      {"g3", false, []protocol.Writer{{Kind: "Restore", Wrote: "g3", Previous: "g3", Undoable: true}}, "can undo data generation g3.", false},
		"two of the same data, whatever for": {"g2", false, []protocol.Writer{upgrade, upgrade}, "RollBack of Upgrade to-19.", true},
	} {
		t.Run(name, func(t *testing.T) {
			undo := newUndo(func(cluster *v1alpha1.PostgresCluster) {
				cluster.Status.DataGeneration = c.runs
				cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
				if c.notUp {
					cluster.Status.Conditions = nil
				}
			})
			undo.Writers = c.writers
			got := undo.Request()
			if undo.Status.VolumeLockRequest != nil {
				t.Fatal("the volumes are requested")
			}
			if waits := got.Kind == flow.KindWait && got.After > 0; waits != c.waits || !waits && got.Reason != v1alpha1.ReasonUndoImpossible {
				t.Errorf("%+v", got)
			}
			if c.waits && !strings.HasSuffix(got.Message, c.want) || !c.waits && !strings.Contains(got.Message, c.want+" The previous data is still on the volume of shop-1, and is removed with this Upgrade.") {
				t.Errorf("it says: %s", got.Message)
			}
		})
	}
}

func TestAnUndoGoesForwardAgainWhereTheVolumeWasDeletedMeanwhile(t *testing.T) {
	grant := func(undo volumelock.Undo, uid types.UID) *v1alpha1.VolumeLock {
		undo.Request()
		undo.Cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
			RequesterUID: "u", Token: protocol.Token("u", 1), State: v1alpha1.VolumeLockGranted,
			Volumes: []v1alpha1.LockedVolume{{Instance: "shop-0", UID: "v0"}, {Instance: "shop-1", UID: uid}},
		}}
		return &undo.Cluster.Status.VolumeLocks[0]
	}
	before := newUndo(nil)
	grant(before, "v9")
	if got := before.Await(); got.Kind != flow.KindStop || got.Reason != v1alpha1.ReasonUndoImpossible || before.Status.VolumeLockRequest != nil {
		t.Errorf("before it is handed back: %+v", got)
	}
	after := newUndo(nil)
	lock := grant(after, "v1")
	after.Await()
	after.HandBack()
	if handover := after.Status.Handover; handover == nil || handover.VolumeUID != "v1" || handover.Instance != "shop-1" {
		t.Fatalf("%+v", handover)
	}
	lock.State, lock.Message = v1alpha1.VolumeLockRefused, "It was deleted."
	got := after.AwaitBack()
	if got.Kind != flow.KindStop || !strings.Contains(got.Message, "It was deleted. The cluster continues with PostgreSQL 18.") ||
		after.Status.VolumeLockRequest != nil || after.Status.Handover != nil {
		t.Errorf("after it was handed back: %+v, %+v", got, after.Status)
	}
}
