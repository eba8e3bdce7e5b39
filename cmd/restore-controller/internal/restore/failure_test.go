package restore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

func TestAnEmptyGrantIsGivenBackInsteadOfWaitingWithTheClusterDown(t *testing.T) {
	o := seenInPlace(grant)
	o.cluster.Status.VolumeLocks[0].Volumes = nil
	if f := o.failure(); f == nil || f.Reason != v1alpha1.ReasonVolumeLockRefused {
		t.Errorf("%+v, the plan is %s", f, names((&Reconciler{}).plan(o)))
	}
}

func TestAClusterThatIsReadyOnOtherDataHasNotStarted(t *testing.T) {
	o := seenInPlace(grant)
	o.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
	o.restore.Status.Handover = &v1alpha1.Handover{Token: protocol.Token("uid", 0), DataGeneration: "g1"}
	o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now.Add(-startLimit - time.Second)}
	o.cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	if f := o.failure(); f == nil || f.Reason != v1alpha1.ReasonNotStarted {
		t.Errorf("%+v, the plan is %s", f, names((&Reconciler{}).plan(o)))
	}
}

func TestAnUndoWithoutTheVolumeDoesNotStopTheClusterAgainAndAgain(t *testing.T) {
	for name, volumes := range map[string][]v1alpha1.LockedVolume{
		"nothing is granted": nil, "another volume is": {{Instance: "shop-0", ClaimName: "data-shop-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			stops, r := 0, &Reconciler{}
			o := seenInPlace(func(o *observed) { decideOn(o, v1alpha1.DecisionUndo) })
			for range 6 {
				outcome := flow.Run(t.Context(), o, r.requestUndo, r.awaitUndo)
				if outcome.Stopped() {
					break
				}
				if request := o.restore.Status.VolumeLockRequest; request == nil {
					o.cluster.Status.VolumeLocks = nil
				} else if o.cluster.Status.VolumeLocks == nil {
					stops++
					o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "uid", Token: request.Token, State: v1alpha1.VolumeLockGranted, Volumes: volumes}}
				}
			}
			if stops != 1 || o.restore.Status.VolumeLockRequest != nil {
				t.Errorf("it was stopped %d times, request %v", stops, o.restore.Status.VolumeLockRequest)
			}
		})
	}
}
