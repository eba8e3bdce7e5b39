//go:build integration

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/test/testkit/mortal"
)

// declare sets spec.version to 18, with a policy for updates.
func (c *crashed) declare(updates string) {
	c.Helper()
	c.merge(fmt.Sprintf(`{"spec":{"version":18,"updates":%s}}`, updates))
}

func (c *crashed) merge(spec string) {
	c.Helper()
	if err := c.Patch(context.Background(), c.shop, client.RawPatch(types.MergePatchType, []byte(spec))); err != nil {
		c.Fatal(err)
	}
}

const automatic = `{"major":"Automatic"}`

// all Upgrades that exist.
func (c *crashed) all() []v1alpha1.Upgrade {
	c.Helper()
	upgrades := &v1alpha1.UpgradeList{}
	if err := c.List(context.Background(), upgrades, client.InNamespace(c.ns)); err != nil {
		c.Fatal(err)
	}
	return upgrades.Items
}

// checks waits for the Upgrade that checks; the story continues with that.
func (c *crashed) checks() *v1alpha1.Upgrade {
	c.Helper()
	c.upgrade = &v1alpha1.Upgrade{ObjectMeta: c.meta(majorupdate.CheckName(c.shop))}
	c.eventually("there is a check", func() bool { return c.there(c.upgrade) }, func() string { return fmt.Sprintf("%+v", c.all()) })
	if !c.upgrade.Spec.CheckOnly || !c.upgrade.Spec.Automatic {
		c.Fatalf("it is %+v", c.upgrade.Spec)
	}
	return c.upgrade
}

// passes has the check find no obstacle.
func (c *crashed) passes() { c.set(func() { c.check = result(agentapi.UpgradeCheckResult{}) }) }

// follows waits for the Upgrade that follows the check; the story continues with that.
func (c *crashed) follows(check *v1alpha1.Upgrade) {
	c.Helper()
	c.upgrade = &v1alpha1.Upgrade{ObjectMeta: c.meta(majorupdate.SuccessorName(check))}
	c.eventually("the Upgrade follows, and that is recorded", func() bool {
		return c.there(check) && check.Status.Successor != nil && c.there(c.upgrade)
	}, func() string { return fmt.Sprintf("%+v", c.all()) })
	if check.Status.Successor.UID != c.upgrade.UID || !metav1.IsControlledBy(c.upgrade, c.shop) || c.upgrade.Spec.CheckOnly {
		c.Fatalf("%+v, and not %+v", check.Status.Successor, c.upgrade)
	}
}

// fixed expects that no Upgrade but these comes, although the controller looks again.
func (c *crashed) fixed(number int) {
	c.Helper()
	for range 10 {
		mortal.Wake(c.Client, c.shop)
		time.Sleep(50 * time.Millisecond)
	}
	if all := c.all(); len(all) != number {
		c.Errorf("there are %d Upgrades, and not %d", len(all), number)
	}
}

// policyStories are the ways that a version can go which a policy asks for.
var policyStories = map[string]func(*crashed){
	"it is checked and upgraded": func(c *crashed) {
		c.passes()
		c.backsUpNow()
		c.follows(c.checks())
		c.works()
		c.completed()
		c.asAsked()
		if c.upgrade.Status.PriorBackup == "" {
			c.Error("there was no backup before it")
		}
		c.fixed(2)
	},
	"its upgrade fails": func(c *crashed) {
		c.passes()
		c.backsUpNow()
		c.set(func() { c.work = failed() })
		c.follows(c.checks())
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonRolledBack)
		c.asBefore()
		c.fixed(2)
	},
	"its upgrade is deleted": func(c *crashed) {
		c.passes()
		c.follows(c.checks())
		c.delete()
		c.gone()
		c.asBefore()
		c.fixed(1)
	},
	"its check finds an obstacle, and a person has it checked again": func(c *crashed) {
		c.set(func() {
			c.check = result(agentapi.UpgradeCheckResult{Findings: []agentapi.Finding{{Severity: "Error", Check: "x", Message: "it can't"}}})
		})
		former := c.checks()
		c.reach(metav1.ConditionFalse, v1alpha1.ReasonCheckFailed)
		c.asBefore()
		c.fixed(1)
		c.passes()
		c.delete()
		c.eventually("it is checked again", func() bool { return c.checks().UID != former.UID }, func() string { return "it is not" })
	},
}

// TestAVersionByPolicyIsReachedOnceAlthoughEachWriteMayBeTheLast has the controller die with each write, and begin again on a cache that
// is behind.
func TestAVersionByPolicyIsReachedOnceAlthoughEachWriteMayBeTheLast(t *testing.T) {
	caches := map[string]mortal.Behind{
		"behind on Upgrades": mortal.Only(&v1alpha1.Upgrade{}), "behind on the rest": mortal.AllBut(&v1alpha1.Upgrade{}),
	}
	for name, tell := range mortal.Some(policyStories) {
		for caches, behind := range mortal.Draw(caches) {
			t.Run(name+", "+caches, func(t *testing.T) {
				c := &crashed{lab: newLab(t)}
				c.set(func() { c.check = nil })
				c.declare(automatic)
				wrote := mortal.Run(t, c.Client, &v1alpha1.Upgrade{}, behind, c.begin)
				tell(c)
				writes := wrote()
				t.Logf("%d processes died", len(writes))
				if len(writes) < 6 {
					t.Errorf("only %d processes died, with:\n%s", len(writes), strings.Join(writes, "\n"))
				}
			})
		}
	}
}

// lives is a story in which the controller doesn't die.
func lives(t *testing.T) *crashed {
	t.Helper()
	c := &crashed{lab: newLab(t)}
	c.startController()
	t.Cleanup(c.stop)
	return c
}

func TestAnAutomaticUpgradeStopsNothingThatItsPolicyDoesNotLetItStop(t *testing.T) {
	c := lives(t)
	c.declare(automatic)
	c.follows(c.checks())
	c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	c.merge(`{"spec":{"updates":{"major":"Manual"}}}`)
	c.backsUpNow()
	c.saysThat("spec.updates.major is Automatic")
	c.merge(`{"spec":{"updates":{"major":"Automatic","notBefore":"2099-01-01T00:00:00Z"}}}`)
	c.saysThat("It waits until 2099-01-01")
	c.merge(`{"spec":{"hibernate":true,"updates":{"notBefore":null}}}`)
	c.saysThat("spec.hibernate is false")
	if !c.there(c.shop) || len(c.shop.Status.VolumeLocks) > 0 || c.shop.Status.DataGeneration != "g0" {
		t.Errorf("it was touched: %+v", c.shop.Status)
	}
	c.works()
	c.merge(`{"spec":{"hibernate":false}}`)
	c.completed()
	c.asAsked()
}

// saysThat waits until the Upgrade waits for its policy, and says that.
func (c *crashed) saysThat(text string) {
	c.Helper()
	c.eventually(text, func() bool {
		return c.there(c.upgrade) && strings.Contains(fmt.Sprint(c.upgrade.Status.Conditions), text) && c.upgrade.Status.VolumeLockRequest == nil
	}, func() string { return fmt.Sprintf("%+v", c.upgrade.Status) })
}

func TestAnAutomaticUpgradeEndsWhenSpecNoLongerAsksForIt(t *testing.T) {
	c := lives(t)
	c.declare(automatic)
	c.follows(c.checks())
	c.reach(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	c.merge(`{"spec":{"version":17}}`)
	c.reach(metav1.ConditionFalse, v1alpha1.ReasonCancelled)
	c.asBefore()
	c.fixed(2)
	if c.there(c.upgrade); c.upgrade.Status.BackupRequest != nil {
		t.Errorf("it still asks for a backup: %+v", c.upgrade.Status)
	}
}

func TestNoUpgradeIsCreatedBesideThatOfAPerson(t *testing.T) {
	c := lives(t)
	c.upgrade = c.lab.upgrade(nil)
	c.declare(automatic)
	c.works()
	c.backsUpNow()
	c.completed()
	c.asAsked()
	c.fixed(1)
}

func TestNothingIsCreatedBeforeTheWindowButACheck(t *testing.T) {
	c := lives(t)
	c.backsUpNow()
	c.declare(`{"major":"Automatic","notBefore":"2099-01-01T00:00:00Z"}`)
	check := c.checks()
	c.completed()
	c.fixed(1)
	c.merge(`{"spec":{"updates":{"notBefore":null}}}`)
	c.follows(check)
	c.works()
	c.completed()
}
