//go:build integration

package cluster

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestANetworkPolicyFollowsSpecThereAndBack(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.account = apiserver.As(t, "db-controller") // which may do no more than the chart allows
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
	shop := l.shop(nil)
	l.awaitRunning(shop)
	policy := &networkingv1.NetworkPolicy{}
	if l.there(policy, "shop-instance") {
		t.Fatal("there is one that nobody asked for")
	}

	l.change(shop, func() { shop.Spec.NetworkPolicy = &v1alpha1.NetworkPolicy{} })
	l.eventually("a policy", func() bool {
		return l.there(policy, "shop-instance") && len(policy.Spec.Ingress) == 3 && len(policy.Spec.PolicyTypes) == 1
	})
	uid := policy.UID

	l.change(shop, func() {
		shop.Spec.NetworkPolicy.Clients = []v1alpha1.NetworkPeer{{Namespaces: v1alpha1.NetworkLabels{"kubernetes.io/metadata.name": "web"}}}
		shop.Spec.NetworkPolicy.Egress = []v1alpha1.NetworkDestination{{NetworkPeer: v1alpha1.NetworkPeer{CIDR: "10.0.0.0/8"}, Ports: []v1alpha1.NetworkPort{9000}}}
	})
	narrow := func() bool {
		return l.there(policy, "shop-instance") && policy.Spec.Ingress[2].From[0].NamespaceSelector != nil && len(policy.Spec.Egress) == 4 && len(policy.Spec.PolicyTypes) == 2
	}
	l.eventually("a narrower policy", narrow)
	l.change(policy, func() { policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{}) })
	l.eventually("a hole is closed again", func() bool { return narrow() && len(policy.Spec.Ingress) == 3 })
	if policy.UID != uid {
		t.Error("it was created anew, which lets everybody in meanwhile")
	}

	l.change(shop, func() { shop.Spec.NetworkPolicy = nil })
	l.eventually("no policy", func() bool { return !l.there(&networkingv1.NetworkPolicy{}, "shop-instance") })
	l.awaitRunning(shop)
}

func TestSomebodyElsesNetworkPolicyIsLeftAloneAndNotTakenForOurs(t *testing.T) {
	l := newLab(t)
	theirs := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.ns, Name: "shop-instance", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
	}}
	l.create(theirs)
	shop := l.shop(nil)
	l.awaitRunning(shop) // which needs no policy
	l.change(shop, func() { shop.Spec.NetworkPolicy = &v1alpha1.NetworkPolicy{} })
	l.awaitCondition(shop, v1alpha1.ConditionUpToDate, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	uid := theirs.UID
	if !l.there(theirs, "shop-instance") || theirs.UID != uid || len(theirs.Spec.Ingress) > 0 || len(theirs.OwnerReferences) > 0 {
		t.Errorf("it was changed: %+v", theirs)
	}
}
