//go:build integration

package cluster

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestWhoBeginsIsToldAndStaysThroughAFailover(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	if told := l.told(); told.DataInstance != "shop-0" || shop.Status.DataInstance != "shop-0" {
		t.Errorf("told %q, recorded %q", told.DataInstance, shop.Status.DataInstance)
	}
	before := l.told().Hash()
	l.lead("shop-1")
	l.eventually("shop-1 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-1" })
	l.settle()
	if l.told().Hash() != before {
		t.Errorf("told %+v", l.told())
	}
}

func TestALeaseIsMadeAnewOnlyOnceAllKnowWhoHasEveryCommit(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.lead("shop-1")
	l.eventually("shop-1 is primary", func() bool { l.get(shop); return shop.Status.Primary == "shop-1" })
	// Nobody holds the lease any more, and somebody deletes it.
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) { status.Election.Leader = "" }
	})
	lease := &coordinationv1.Lease{}
	l.there(lease, "shop")
	gone := lease.UID
	if err := l.Delete(context.Background(), lease); err != nil {
		t.Fatal(err)
	}
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "8MB"} }) // wakes it
	l.eventually("the Lease is there again", func() bool { return l.there(lease, "shop") && lease.UID != gone })
	if l.get(shop); shop.Status.DataInstance != "shop-1" || l.told().DataInstance != "shop-1" {
		t.Errorf("recorded %s, told %s", shop.Status.DataInstance, l.told().DataInstance)
	}
}

func TestTheInstanceThatAnUpgradeRanOnBeginsItsData(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	old := shop.Status.DataGeneration
	l.lead("shop-2")
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.HoldGranted)
	l.say(upgrade, func() { upgrade.Status.Handover = handover(shop, upgrade) })
	l.awaitAnswer(shop, upgrade, v1alpha1.HoldAdopted)
	l.eventually("the agents are told", func() bool { return l.told().DataInstance == "shop-2" })
	l.kube.set(func(s *standIn) { s.leaders["shop"] = "shop-1" }) // a failover on the new data

	l.say(upgrade, func() {
		upgrade.Status.Handover.DataGeneration, upgrade.Status.Handover.MajorVersion, upgrade.Status.Handover.Image = old, 17, "postgres:17"
	})
	l.eventually("the old data is adopted", func() bool { l.get(shop); return shop.Status.DataGeneration == old })
	if told := l.told().DataInstance; shop.Status.DataInstance != "shop-2" || told != "shop-2" {
		t.Errorf("recorded %s, told %s", shop.Status.DataInstance, told)
	}
}
