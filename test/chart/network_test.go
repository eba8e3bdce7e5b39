//go:build chart

package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// reached are the ports that the egress rules of a policy name, in their order. Those of UDP are negative.
func reached(policy networkingv1.NetworkPolicy) (all []int32) {
	for _, rule := range policy.Spec.Egress {
		for _, port := range rule.Ports {
			number := port.Port.IntVal
			if *port.Protocol == corev1.ProtocolUDP {
				number = -number
			}
			all = append(all, number)
		}
	}
	return all
}

func TestNoControllerIsShutOffUnlessThatIsAskedFor(t *testing.T) {
	if found := ofKind(render(t), "NetworkPolicy"); len(found) > 0 {
		t.Errorf("%v", names(found))
	}
}

func TestEachControllerReachesWhatItsWorkNeeds(t *testing.T) {
	objects := render(t, "networkPolicies.enabled=true", "networkPolicies.storeEgress[0].ports[0].port=9000", "networkPolicies.storeEgress[0].ports[0].protocol=TCP", "networkPolicies.apiServerPorts={8443}")
	if got := names(ofKind(objects, "NetworkPolicy")); !slices.Equal(got, controllers) {
		t.Fatalf("policies %v", got)
	}
	dns := []int32{-53, -5353, 53, 5353} // with 5353, as the pods of DNS listen there on OpenShift
	want := map[string][]int32{
		"db-controller": {8443, 8443}, "upgrade-controller": {8443}, "pooler-controller": {8443}, "drill-controller": {8443},
		"backup-controller": {8443, 9000}, "restore-controller": {8443, 9000},
	}
	for _, object := range ofKind(objects, "NetworkPolicy") {
		policy := as[networkingv1.NetworkPolicy](t, object)
		if got := reached(policy); !slices.Equal(got, slices.Concat(dns, want[policy.Name])) {
			t.Errorf("%s reaches ports %v", policy.Name, got)
		}
		if len(policy.Spec.Ingress) > 0 || len(policy.Spec.PolicyTypes) != 2 {
			t.Errorf("%s can be reached: %+v", policy.Name, policy.Spec)
		}
		selector := labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels)
		for _, other := range ofKind(objects, "Deployment") {
			pod := as[appsv1.Deployment](t, other).Spec.Template
			if selector.Matches(labels.Set(pod.Labels)) != (other.GetName() == policy.Name) {
				t.Errorf("%s selects the pods of %s, or not its own", policy.Name, other.GetName())
			}
		}
	}
}

func TestWhoScrapesTheControllersIsLetIn(t *testing.T) {
	objects := render(t, "networkPolicies.enabled=true", "networkPolicies.metricsFrom[0].podSelector.matchLabels.app=prometheus")
	for _, object := range ofKind(objects, "NetworkPolicy") {
		rules := as[networkingv1.NetworkPolicy](t, object).Spec.Ingress
		if len(rules) != 1 || rules[0].From[0].PodSelector.MatchLabels["app"] != "prometheus" || rules[0].Ports[0].Port.IntVal != 8443 {
			t.Errorf("%s: %+v", object.GetName(), rules)
		}
	}
}

func TestSettingsOfNetworkPoliciesThatNothingActsOnAreRefused(t *testing.T) {
	for _, set := range []string{"networkPolicies.ingress=true", "networkPolicies.apiServerPorts={0}", "networkPolicies.metricsFrom=all"} {
		if out, err := try(set); err == nil || !strings.Contains(string(out), "don't meet the specifications of the schema") {
			t.Errorf("--set %s: %v\n%s", set, err, out)
		}
	}
}
