//go:build integration

package cluster

import (
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// awaitSwitchover waits until a requested switchover ends.
func (l *lab) awaitSwitchover(shop *v1alpha1.PostgresCluster, token string, state v1alpha1.SwitchoverState) *v1alpha1.SwitchoverStatus {
	l.Helper()
	l.eventually("the switchover "+token+" is "+string(state), func() bool {
		l.get(shop)
		s := shop.Status.Switchover
		return s != nil && s.Token == token && s.State == state
	})
	return shop.Status.Switchover
}

func TestASwitchoverIsCarriedOutOnceForEachToken(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-2", Token: "a"} })
	answer := l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverDone)
	if answer.From != "shop-0" || answer.To != "shop-2" || answer.CompletedAt == nil || answer.Message != "shop-2 took over from shop-0." {
		t.Errorf("answer: %+v", answer)
	}
	l.awaitReplicated(shop)
	l.lead("shop-0")
	l.eventually("a failover is seen", func() bool { l.get(shop); return shop.Status.Primary == "shop-0" })
	l.settle()
	l.stop()
	l.startController()
	l.settle()
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{Token: "b"} })
	if answer := l.awaitSwitchover(shop, "b", v1alpha1.SwitchoverDone); answer.To != "shop-1" {
		t.Errorf("answer: %+v", answer)
	}
	l.kube.set(func(s *standIn) {
		if len(s.switchovers) != 2 || s.switchovers[0] != (agentapi.SwitchoverRequest{Token: "a", To: "shop-2"}) || s.switchovers[1] != (agentapi.SwitchoverRequest{Token: "b"}) {
			t.Errorf("asked for %+v", s.switchovers)
		}
	})
}

func TestASwitchoverThatCantBeIsRefusedWithASentence(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-3", Token: "a"} })
	if answer := l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverRefused); answer.Message != "There is no instance shop-3: the instances are shop-0 to shop-2." {
		t.Errorf("answer: %+v", answer)
	}
	l.kube.set(func(s *standIn) { s.refusal = "shop-1 is 40 MiB behind" })
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-1", Token: "b"} })
	if answer := l.awaitSwitchover(shop, "b", v1alpha1.SwitchoverRefused); answer.Message != "shop-1 is 40 MiB behind." || answer.CompletedAt == nil {
		t.Errorf("answer: %+v", answer)
	}
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-0", Token: "c"} })
	if answer := l.awaitSwitchover(shop, "c", v1alpha1.SwitchoverDone); answer.Message != "shop-0 was already primary." {
		t.Errorf("answer: %+v", answer)
	}
	l.awaitReplicated(shop)
}

func TestASingleInstanceHasNobodyToSwitchTo(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{Token: "a"} })
	if answer := l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverRefused); !strings.Contains(answer.Message, "There is only one instance") {
		t.Errorf("answer: %+v", answer)
	}
	l.awaitRunning(shop)
}

func TestASwitchoverThatAnotherFailoverOvertookSaysSo(t *testing.T) {
	l := newLab(t)
	shop := l.shop(three)
	l.awaitReplicated(shop)
	l.kube.set(func(s *standIn) {
		s.refusal = "wait"
		s.answer = func(status *agentapi.Status) {
			if e := status.Election; e != nil && e.Switchover != nil {
				e.Switchover.State = agentapi.SwitchoverRunning
			}
		}
	})
	l.change(shop, func() { shop.Spec.Switchover = &v1alpha1.Switchover{To: "shop-2", Token: "a"} })
	l.eventually("it was asked", func() bool {
		asked := 0
		l.kube.set(func(s *standIn) { asked = len(s.switchovers) })
		return asked > 0
	})
	l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverRunning)
	l.lead("shop-1")
	if answer := l.awaitSwitchover(shop, "a", v1alpha1.SwitchoverRefused); answer.Message != "shop-1 became primary meanwhile, and not shop-2." {
		t.Errorf("answer: %+v", answer)
	}
}
