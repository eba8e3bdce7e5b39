package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// rolledBack is a cluster whose status is from before an upgrade to 18, which two of its volumes have seen.
func rolledBack(annotation string) *observed.Cluster {
	return observedtest.Trio(func(o *observed.Cluster) {
		o.Agents["shop-0"].Adoption = &agentapi.Adoption{
			Number: 1, DataGeneration: "g2", Whole: true, SystemIdentifier: "8", MajorVersion: 18, Timeline: 1, Checkpoint: 0x1000028,
		}
		later := *o.Agents["shop-0"].Adoption
		later.Timeline = 2
		o.Agents["shop-1"].Adoption = &later
		o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationRunData: annotation}
	})
}

func TestAStatusThatIsOlderThanTheVolumesChangesNothingUntilAPersonDecides(t *testing.T) {
	r := &Reconciler{}
	r.Images = manager.Images{18: "postgres:18"}
	for name, annotation := range map[string]string{
		"no decision":                            "",
		"a decision about another adoption":      "shop-1/g2/0",
		"data that is nowhere":                   "shop-1/g3/1",
		"an instance without a copy of the data": "shop-2/g2/1",
		"an instance that does not exist":        "shop-7/g1/1",
	} {
		o := rolledBack(annotation)
		before := o.Cluster.Status.DeepCopy()
		got := r.heedVolumes(t.Context(), o)
		if got.Kind != flow.KindStop || got.Reason != v1alpha1.ReasonStatusOutdated || got.After == 0 || o.Cluster.Status.Adoptions != before.Adoptions ||
			o.Cluster.Status.DataGeneration != before.DataGeneration {
			t.Errorf("%s: %+v, %+v", name, got, o.Cluster.Status)
		}
		for _, want := range []string{"shop-1 has adoption 1 with data generation g2 (timeline 2, checkpoint 0/1000028)", "=shop-1/g2/1.", v1alpha1.AnnotationRunData + "=shop-0/g1/1."} {
			if !strings.Contains(got.Message, want) {
				t.Errorf("%s: the message lacks %q: %s", name, want, got.Message)
			}
		}
	}
}

// Silence takes nothing back: an agent that doesn't respond for a moment may be the only one that knows of the later adoption.
func TestAnOutdatedStatusStaysSoWhileAnAgentIsSilent(t *testing.T) {
	r := &Reconciler{}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		kind   flow.Kind
	}{
		"those that know don't respond": {func(o *observed.Cluster) { delete(o.Agents, "shop-0"); delete(o.Agents, "shop-1") }, flow.KindStop},
		"it wasn't known": {func(o *observed.Cluster) {
			delete(o.Agents, "shop-0")
			delete(o.Agents, "shop-1")
			o.Cluster.Status.Conditions = nil
		}, flow.Next.Kind},
		"all answer, and none knows of it": {func(o *observed.Cluster) { o.Agents["shop-0"].Adoption, o.Agents["shop-1"].Adoption = nil, nil }, flow.Next.Kind},
		"their pods are gone": {func(o *observed.Cluster) {
			o.Agents, o.Pods = map[string]*agentapi.Status{}, nil
		}, flow.Next.Kind},
	} {
		o := rolledBack("")
		for i := range o.Pods {
			o.Pods[i].Status.Phase = corev1.PodRunning
		}
		o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStatusOutdated, Message: "As before."}}
		c.change(o)
		got := r.heedVolumes(t.Context(), o)
		if got.Kind != c.kind || got.Kind == flow.KindStop && (got.Message != "As before." || got.After == 0) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestADecisionIsOneMoreAdoption(t *testing.T) {
	r := &Reconciler{}
	r.Images = manager.Images{18: "postgres:18"}
	for annotation, want := range map[string]v1alpha1.PostgresClusterStatus{
		"shop-1/g2/1": {Adoptions: 2, DataGeneration: "g2", PreviousDataGeneration: "g1", SystemIdentifier: "8", MajorVersion: 18, Image: "postgres:18", DataInstance: "shop-1"},
		"shop-2/g1/1": {Adoptions: 2, DataGeneration: "g1", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17", DataInstance: "shop-2"},
	} {
		o := rolledBack(annotation)
		outcome := r.heedVolumes(t.Context(), o)
		got := o.Cluster.Status
		if outcome.Kind != flow.KindSave || got.Adoptions != want.Adoptions || got.DataGeneration != want.DataGeneration || got.Image != want.Image ||
			got.PreviousDataGeneration != want.PreviousDataGeneration || got.SystemIdentifier != want.SystemIdentifier ||
			got.MajorVersion != want.MajorVersion || got.DataInstance != want.DataInstance || got.Primary != want.DataInstance {
			t.Errorf("%s: %+v, %+v", annotation, outcome, got)
		}
		if again := r.heedVolumes(t.Context(), o); !again.Finished() || again.Kind != flow.Next.Kind {
			t.Errorf("%s: once more: %+v", annotation, again)
		}
	}
}

// TestADecisionHoldsAgainstWhoHadTheVolumesWhenEtcdWasBackedUp: their requests and what they hand over come back with etcd.
func TestADecisionHoldsAgainstWhoHadTheVolumesWhenEtcdWasBackedUp(t *testing.T) {
	r := &Reconciler{}
	r.Images = manager.Images{18: "postgres:18"}
	for _, state := range []v1alpha1.VolumeLockState{v1alpha1.VolumeLockGranted, v1alpha1.VolumeLockAdopted} {
		for annotation, want := range map[string]string{"shop-1/g2/1": "g2 on shop-1", "shop-2/g1/1": "g1 on shop-2"} {
			o := rolledBack(annotation)
			observedtest.HandsOver(o, "g2", state, "shop-0", "shop-1", "shop-2")
			for _, step := range (steps{r.heedVolumes, volumegrant.AdoptHandover, volumegrant.Respond}) {
				step(t.Context(), o)
			}
			status := o.Cluster.Status
			if got := status.DataGeneration + " on " + status.DataInstance; got != want || len(status.VolumeLocks) != 1 ||
				status.VolumeLocks[0].State != v1alpha1.VolumeLockRefused || volumegrant.MustBeStopped(o) {
				t.Errorf("%s, while a lock is %s: it runs %s, and the locks are %+v", annotation, state, got, status.VolumeLocks)
			}
		}
	}
}

func TestDataWithoutAnImageIsNotChosen(t *testing.T) {
	o := rolledBack("shop-1/g2/1")
	got := (&Reconciler{}).heedVolumes(t.Context(), o)
	if got.Kind != flow.KindStop || !strings.Contains(got.Message, "set spec.version to 18 and spec.image") || o.Cluster.Status.Adoptions != 0 {
		t.Errorf("%+v", got)
	}
}
