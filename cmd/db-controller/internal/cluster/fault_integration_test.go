//go:build integration

package cluster

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// TestAPostmasterIsKilledForADrillUnderOneTokenAlthoughTheControllerEndsInBetween plays the drill-controller, and an agent that says late what
// it has done.
func TestAPostmasterIsKilledForADrillUnderOneTokenAlthoughTheControllerEndsInBetween(t *testing.T) {
	l := newLab(t)
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Instances, c.Spec.Synchronous = 3, &v1alpha1.Synchronous{Number: 1}
	})
	l.awaitReplicated(shop)
	drill := &v1alpha1.FailoverDrill{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "d"}, Spec: v1alpha1.FailoverDrillSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Fault: v1alpha1.FailoverFault{Type: v1alpha1.FaultKillPostmaster}, MaxPerWeek: 3,
	}}
	l.create(drill)
	l.say(drill, func() { drill.Status.Request = &v1alpha1.FailoverDrillRequest{ClusterUID: shop.UID} })
	l.awaitDrill(shop, v1alpha1.FailoverDrillPrepared)
	l.get(shop)
	hit := slices.IndexFunc(shop.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name == shop.Status.Primary })
	l.say(drill, func() {
		drill.Status.Request.Inject = &v1alpha1.FailoverInjection{
			Instance: shop.Status.Primary, PodUID: shop.Status.Instances[hit].PodUID, DecidedAt: metav1.Now(),
		}
	})
	l.eventually("the agent is asked", func() bool {
		asked := 0
		l.kube.set(func(s *standIn) { asked = len(s.faults) })
		return asked > 0
	})
	l.stop()
	l.startController()
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			if status.Role == "primary" {
				status.Fault = &agentapi.FaultStatus{Token: string(drill.UID), State: agentapi.FaultDone, Message: "The postmaster was killed."}
			}
		}
	})
	l.awaitDrill(shop, v1alpha1.FailoverDrillInjected)
	l.kube.set(func(s *standIn) {
		if all := slices.Compact(s.faults); len(all) != 1 || all[0] != shop.Status.Primary+" KillPostmaster "+string(drill.UID) {
			t.Errorf("asked for %v", all)
		}
	})
	if len(shop.Status.DrilledFaults) != 1 {
		t.Errorf("%d faults count in the budget", len(shop.Status.DrilledFaults))
	}
	l.say(drill, func() { drill.Status.Request = nil })
	l.eventually("nothing is left", func() bool {
		l.get(shop)
		return shop.Status.FailoverDrill == nil
	})
}

func (l *lab) awaitDrill(shop *v1alpha1.PostgresCluster, state v1alpha1.ClusterFailoverDrillState) {
	l.Helper()
	l.eventually("the drill is "+string(state), func() bool {
		l.get(shop)
		return shop.Status.FailoverDrill != nil && shop.Status.FailoverDrill.State == state
	})
}
