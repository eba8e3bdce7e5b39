//go:build integration

package restore

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/mortal"
)

// way is a mode of a Restore, and how it goes.
type way struct {
	change func(*v1alpha1.RestoreSpec)
	story  func(*crashed)
}

var ways = map[string]way{
	"a new cluster": {nil, func(c *crashed) { c.works(); c.completed(); c.made() }},
	"a new cluster from a bare bucket": {fromBareBucket, func(c *crashed) {
		c.works()
		c.completed()
		c.made()
		if password, controlled, _ := c.password("copy-app"); password != "as it was" || !controlled {
			c.Errorf("copy-app has %q, controlled by the cluster: %t", password, controlled)
		}
	}},
	"a new cluster, and the Restore expires": {func(s *v1alpha1.RestoreSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](1) }, func(c *crashed) {
		c.works()
		c.backedUp()
		c.gone()
		c.made()
	}},
	"a new cluster whose Job fails": {nil, func(c *crashed) {
		c.jobEnds(corrupt)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
		c.nothing()
	}},
	"a new cluster that is cancelled": {nil, func(c *crashed) {
		c.running()
		c.patchSpec(c.restore, `{"cancel":true}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
		c.nothing()
	}},
	"a new cluster that is not wanted any more": {nil, func(c *crashed) { c.running(); c.delete(); c.nothing() }},
	"a plan": {func(s *v1alpha1.RestoreSpec) { inPlace(s); s.Mode = v1alpha1.RestorePlanOnly }, func(c *crashed) {
		c.completed()
		c.expectShop(string(c.shop.UID), "g0", "")
	}},
	"in place, confirmed": {inPlace, func(c *crashed) {
		c.works()
		c.restored()
		c.patchSpec(c.restore, `{"decision":"Confirm"}`)
		c.backedUp()
		c.completed()
		c.asRestored()
	}},
	"in place, undone": {inPlace, func(c *crashed) {
		c.works()
		c.restored()
		c.patchSpec(c.restore, `{"decision":"Undo"}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonUndone)
		c.asBefore()
	}},
	"in place, and nobody decides": {func(s *v1alpha1.RestoreSpec) {
		inPlace(s)
		s.ConfirmWithin = &metav1.Duration{Duration: time.Second}
	}, func(c *crashed) {
		c.works()
		c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
		c.backedUp()
		c.completed()
		c.asRestored()
	}},
	"in place, and the Restore is deleted before a decision": {inPlace, func(c *crashed) {
		c.works()
		c.restored()
		c.beginDeletion()
		c.backedUp()
		c.gone()
		c.asRestored()
	}},
	"in place, and the Restore is deleted while it is undone": {inPlace, func(c *crashed) {
		c.works()
		c.restored()
		c.patchSpec(c.restore, `{"decision":"Undo"}`)
		c.reach(metav1.ConditionUnknown, v1alpha1.ReasonUndoing)
		c.delete()
		c.asBefore()
	}},
	"in place, with a safety backup": {func(s *v1alpha1.RestoreSpec) { inPlace(s); s.Destination.InPlace.SafetyBackup = true }, func(c *crashed) {
		c.backedUp()
		c.works()
		c.restored()
		c.safelyBackedUp()
		c.expectShop(string(c.shop.UID), c.generation(), "")
	}},
	"in place, giving up the previous data": {discardingInPlace, func(c *crashed) {
		c.backedUp()
		c.works()
		c.completed()
		c.asRestored()
		c.safelyBackedUp()
	}},
	"in place, and its Job fails for good after it gave up the previous data": {discardingInPlace, func(c *crashed) {
		c.backedUp()
		c.jobEnds(agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonPreviousDataDiscarded, Message: "the volume is full", Final: true}})
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonPreviousDataDiscarded)
		c.asBefore() // nothing of it is there, which a restore of the safety backup fixes
		c.safelyBackedUp()
	}},
	"in place, cancelled and deleted while the previous data is given up": {discardingInPlace, func(c *crashed) {
		c.backedUp()
		c.running()
		c.patchSpec(c.restore, `{"cancel":true}`) // too late
		c.beginDeletion()
		c.works()
		c.gone()
		c.asRestored()
	}},
	"in place, cancelled before the previous data is given up": {discardingInPlace, func(c *crashed) {
		c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
		c.patchSpec(c.restore, `{"cancel":true}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
		c.expectShop(string(c.shop.UID), "g0", "")
	}},
	"in place, and its Job fails": {inPlace, func(c *crashed) {
		c.jobEnds(corrupt)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
		c.asBefore()
	}},
	"in place, cancelled": {inPlace, func(c *crashed) {
		c.running()
		c.patchSpec(c.restore, `{"cancel":true}`)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
		c.asBefore()
	}},
	"in place, not wanted any more": {inPlace, func(c *crashed) { c.running(); c.delete(); c.asBefore() }},
	"in place, and the cluster doesn't start in time": {inPlace, func(c *crashed) {
		c.mu.Lock()
		c.refuses = c.generation()
		c.mu.Unlock()
		c.works()
		c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingAdoption)
		c.ahead.Store(int64(startLimit + time.Minute))
		mortal.Wake(c.Client, c.restore)
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonNotStarted)
		c.asBefore()
	}},
}

// discardingInPlace gives up the previous data: its volume is full, in these tests.
func discardingInPlace(s *v1alpha1.RestoreSpec) { inPlace(s); discarding(s) }

func inPlace(s *v1alpha1.RestoreSpec) {
	s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
}

func fromBareBucket(s *v1alpha1.RestoreSpec) {
	s.Source = v1alpha1.RestoreSource{Repository: &v1alpha1.RepositorySource{Name: "repo"}}
}
