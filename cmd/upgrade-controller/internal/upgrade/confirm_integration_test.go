//go:build integration

package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/mortal"
)

// confirmed waits until the condition Confirmed says that, and returns its message.
func (c *crashed) confirmed(status metav1.ConditionStatus, reason string) (message string) {
	c.Helper()
	said := &metav1.Condition{}
	c.eventually("Confirmed is "+string(status)+" "+reason, func() bool {
		if !c.there(c.upgrade) {
			c.Fatal("the Upgrade was deleted")
		}
		if now := meta.FindStatusCondition(c.upgrade.Status.Conditions, v1alpha1.ConditionConfirmed); now != nil {
			said = now
		}
		return said.Status == status && said.Reason == reason
	}, func() string { return said.Reason + ": " + said.Message })
	return said.Message
}

// released expects that one data generation is removed from the volumes, and no other.
func (c *crashed) released(generation string) {
	c.Helper()
	if c.there(c.shop); !slices.Equal(c.shop.Status.ReleasedDataGenerations, []string{generation}) {
		c.Errorf("removed are %v, want %s", c.shop.Status.ReleasedDataGenerations, generation)
	}
}

// upgradedBy makes an Upgrade whose cluster runs on the new version, with a controller that lives.
func upgradedBy(t *testing.T, change func(*v1alpha1.UpgradeSpec)) *crashed {
	c := &crashed{lab: newLab(t)}
	c.upgrade = c.lab.upgrade(change)
	c.works()
	c.startController()
	return c
}

func TestThePreviousDataIsKeptForTheTimeAndUntilABackupHasSucceeded(t *testing.T) {
	c := upgradedBy(t, func(s *v1alpha1.UpgradeSpec) { s.ConfirmWithin = &metav1.Duration{Duration: time.Hour} })
	c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	if message := c.confirmed(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation); !strings.Contains(message, "without anything that was written since") {
		t.Error(message)
	}
	c.ahead.Store(int64(2 * time.Hour))
	mortal.Wake(c.Client, c.upgrade)
	c.eventually("it says why the data is kept beyond its time", func() bool {
		return strings.Contains(c.confirmed(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation), "and beyond that as long as the upgrade has not ended")
	}, func() string { return "it doesn't" })
	if c.upgrade.Status.Decided != nil {
		t.Errorf("a person can't bring it back any more: %+v", c.upgrade.Status.Decided)
	}
	if c.there(c.shop); len(c.shop.Status.ReleasedDataGenerations) > 0 {
		t.Errorf("%v is removed without a backup", c.shop.Status.ReleasedDataGenerations)
	}
	c.backsUpNow()
	c.completed()
	c.confirmed(metav1.ConditionTrue, v1alpha1.ReasonConfirmed)
	if why := c.upgrade.Status.Decided.Why; !strings.Contains(why, "spec.confirmWithin") {
		t.Error(why)
	}
	c.released("g0")
	err := c.Patch(context.Background(), c.upgrade, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"decision":"RollBack"}}`)))
	if err == nil || !strings.Contains(err.Error(), "this upgrade was confirmed, so the previous data is deleted") {
		t.Errorf("rolled back: %v", err)
	}
}

func TestARolledBackUpgradeSaysWhatIsLeftOfTheNewData(t *testing.T) {
	c := upgradedBy(t, func(s *v1alpha1.UpgradeSpec) { s.SafetyBackup = true })
	c.backsUpNow()
	c.completed()
	c.patch(`{"spec":{"decision":"RollBack"}}`)
	message := c.confirmed(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
	safety := c.upgrade.Status.SafetyBackup
	if safety == "" || !strings.Contains(message, "Backup "+safety+" has it") || c.upgrade.Status.SettledAt == nil {
		t.Errorf("%s; %+v", message, c.upgrade.Status)
	}
	backup := &v1alpha1.Backup{ObjectMeta: c.meta(safety)}
	if !c.there(backup) || !backup.Spec.Hold {
		t.Errorf("%+v", backup.Spec)
	}
	c.asBefore()
	c.released(c.generation())
}

func TestAnUpgradeWhosePreviousDataIsAwayCannotBeRolledBack(t *testing.T) {
	c := upgradedBy(t, nil)
	c.backsUpNow()
	c.completed()
	c.there(c.shop)
	before := c.shop.DeepCopy()
	c.shop.Status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-1"}}
	if err := c.Status().Patch(context.Background(), c.shop, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	c.patch(`{"spec":{"decision":"RollBack"}}`)
	if message := c.confirmed(metav1.ConditionFalse, v1alpha1.ReasonUndoImpossible); !strings.Contains(message, "The cluster continues with PostgreSQL 18") {
		t.Error(message)
	}
	c.asAsked()
	c.delete()
	c.gone()
	c.released("g0")
}

func TestADecisionThatMakesNoSenseIsRefused(t *testing.T) {
	l := newLab(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.UpgradeSpec)
		want   string
	}{
		"about a check": {func(s *v1alpha1.UpgradeSpec) { s.CheckOnly, s.Decision = true, v1alpha1.UpgradeConfirm },
			"apply to an upgrade that is carried out"},
		"for ever":            {func(s *v1alpha1.UpgradeSpec) { s.ConfirmWithin = &metav1.Duration{Duration: 9000 * time.Hour} }, "spec.confirmWithin must be from 0s to 8760h"},
		"that doesn't exist":  {func(s *v1alpha1.UpgradeSpec) { s.Decision = "Undo" }, `"Confirm", "RollBack"`},
		"with a backup of it": {func(s *v1alpha1.UpgradeSpec) { s.CheckOnly, s.SafetyBackup = true, true }, "apply to an upgrade that is carried out"},
	} {
		upgrade := &v1alpha1.Upgrade{ObjectMeta: l.meta("refused"), Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18}}
		test.change(&upgrade.Spec)
		if err := l.Create(context.Background(), upgrade); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made := l.upgrade(func(s *v1alpha1.UpgradeSpec) { s.Decision = v1alpha1.UpgradeConfirm })
	err := l.Patch(context.Background(), made, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"decision":"RollBack"}}`)))
	if err == nil || !strings.Contains(err.Error(), "spec.decision can't be changed once it is made") {
		t.Errorf("changed: %v", err)
	}
	err = l.Patch(context.Background(), made, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"dropLogicalSlots":true}}`)))
	if err == nil || !strings.Contains(err.Error(), "spec.dropLogicalSlots can't be changed") {
		t.Errorf("consented after the check: %v", err)
	}
}
