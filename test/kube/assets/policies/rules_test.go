package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(namespace, name, node string, set map[string]string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "sql", ContainerPort: 5432}, {Name: "sql", ContainerPort: 5433, Protocol: corev1.ProtocolUDP},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// ended is a pod whose address may be another's by now.
func ended() *corev1.Pod {
	p := pod("shop", "ended", "w2", map[string]string{"app": "web"}, "10.0.2.9")
	p.Status.Phase = corev1.PodSucceeded
	return p
}

func onHost() *corev1.Pod {
	p := pod("shop", "host", "w2", map[string]string{"app": "web"}, "198.19.0.12")
	p.Spec.HostNetwork = true
	return p
}

var everybody = world{
	namespaces: map[string]labels.Set{"shop": {"team": "a"}, "other": {"team": "b"}},
	pods: []*corev1.Pod{
		pod("shop", "web", "w2", map[string]string{"app": "web"}, "10.0.2.2"),
		pod("shop", "db", "w1", map[string]string{"app": "db"}, "10.0.1.2"),
		pod("shop", "idle", "w1", map[string]string{"app": "idle"}, "10.0.1.3"),
		pod("other", "web", "w2", map[string]string{"app": "web"}, "10.0.2.3", "fd45::23"),
		pod("shop", "pending", "w1", map[string]string{"app": "web"}),
		ended(), onHost(),
	},
}

func policy(spec networkingv1.NetworkPolicySpec) world {
	w := everybody
	spec.PodSelector = *labelled("app", "db")
	w.policies = []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: spec}}
	return w
}

func in(from []networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) world {
	return policy(networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{"Ingress"}, Ingress: []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: ports}},
	})
}

func out(to []networkingv1.NetworkPolicyPeer, ports ...networkingv1.NetworkPolicyPort) world {
	return policy(networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{"Egress"}, Egress: []networkingv1.NetworkPolicyEgressRule{{To: to, Ports: ports}},
	})
}

func port(value intstr.IntOrString, protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Port: &value, Protocol: &protocol}
}

func upTo(last int32) networkingv1.NetworkPolicyPort {
	p := port(intstr.FromInt32(9000), corev1.ProtocolTCP)
	p.EndPort = &last
	return p
}

type peersOf = []networkingv1.NetworkPolicyPeer

var cases = []struct {
	what string
	w    world
	kind string   // of the only chain, empty if there is none
	want []string // what may pass, besides the pod itself
}{
	{what: "no policy", w: everybody},
	{"nobody is let in", policy(networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}}), "ingress", nil},
	{"everybody is let in", in(nil), "ingress", []string{""}},
	{"by labels, in the namespace of the policy", in(peersOf{{PodSelector: labelled("app", "web")}}), "ingress", []string{"ip saddr { 10.0.2.2 }"}},
	{"all pods of the namespace", in(peersOf{{PodSelector: &metav1.LabelSelector{}}}), "ingress", []string{"ip saddr { 10.0.1.2, 10.0.1.3, 10.0.2.2 }"}},
	{"all pods of another namespace", in(peersOf{{NamespaceSelector: labelled("team", "b")}}), "ingress", []string{"ip saddr { 10.0.2.3 }", "ip6 saddr { fd45::23 }"}},
	{"labels of both", in(peersOf{{NamespaceSelector: labelled("team", "b"), PodSelector: labelled("app", "db")}}), "ingress", nil},
	{"two peers that are the same pod", in(peersOf{{PodSelector: labelled("app", "web")}, {PodSelector: labelled("app", "web")}}), "ingress", []string{"ip saddr { 10.0.2.2 }"}},
	{
		"ranges", in(peersOf{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}, {IPBlock: &networkingv1.IPBlock{CIDR: "fd00::/8"}}}),
		"ingress", []string{"ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16", "ip6 saddr fd00::/8"},
	},
	{
		"ports", in(nil, port(intstr.FromInt32(5432), "TCP"), port(intstr.FromInt32(53), "UDP"), upTo(9010), port(intstr.FromString("sql"), "TCP"), port(intstr.FromString("none"), "TCP")),
		"ingress", []string{"tcp dport 5432", "udp dport 53", "tcp dport 9000-9010", "tcp dport 5432"},
	},
	{"all ports of a protocol", in(nil, networkingv1.NetworkPolicyPort{}), "ingress", []string{"meta l4proto tcp"}},
	{"out, to pods and a port", out(peersOf{{PodSelector: labelled("app", "web")}}, port(intstr.FromInt32(80), "TCP")), "egress", []string{"ip daddr { 10.0.2.2 } tcp dport 80"}},
	{"out, to a name", out(nil, port(intstr.FromString("sql"), "TCP")), "egress", nil},
}

func TestOnlyWhatPoliciesSayPasses(t *testing.T) {
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			var want []string
			if c.kind != "" {
				side := map[string]string{"ingress": "saddr", "egress": "daddr"}[c.kind]
				want = append(want, "chain "+c.kind+"-db { # shop/db", "ip "+side+" { 10.0.1.2 } return")
				for _, match := range c.want {
					want = append(want, strings.TrimSpace(match+" return"))
				}
				want = append(want, "drop", "}")
			}
			rules := ruleset("w1", c.w)
			chains, forward, _ := strings.Cut(strings.TrimPrefix(rules, begin), "\tchain forward {\n")
			var got []string
			for line := range strings.Lines(chains) {
				got = append(got, strings.TrimSpace(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if jumps := strings.Count(forward, " jump "); jumps != min(1, len(c.kind)) {
				t.Errorf("%d jumps:\n%s", jumps, forward)
			}
			if other := ruleset("w2", c.w); strings.Contains(other, "jump") {
				t.Errorf("the node of the peers has rules for the pod of another:\n%s", other)
			}
		})
	}
}

func TestPoliciesAddUp(t *testing.T) {
	w := in(peersOf{{PodSelector: labelled("app", "web")}}, port(intstr.FromInt32(5432), "TCP"))
	second := w.policies[0].DeepCopy()
	second.Name = "another"
	second.Spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(9187), "TCP")}
	w.policies = append(w.policies, second)
	rules := ruleset("w1", w)
	if strings.Count(rules, "\tdrop\n") != 1 || !strings.Contains(rules, "tcp dport 9187 return\n\t\tip saddr { 10.0.2.2 } tcp dport 5432 return\n") {
		t.Error(rules)
	}
	w.policies[0].Namespace, second.Namespace = "other", "other"
	if rules := ruleset("w1", w); strings.Contains(rules, "drop") {
		t.Errorf("policies of another namespace apply:\n%s", rules)
	}
}

func TestTheOrderOfPodsMakesNoOtherRules(t *testing.T) {
	w := in(peersOf{{PodSelector: &metav1.LabelSelector{}}})
	turned := w
	turned.pods = slices.Clone(w.pods)
	slices.Reverse(turned.pods)
	if ruleset("w1", w) != ruleset("w1", turned) {
		t.Error("it makes others")
	}
}

// TestNftReadsAllRules has it check them in a network namespace of its own, without anything being applied.
func TestNftReadsAllRules(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil || os.Getuid() != 0 {
		t.Skip("it needs nft and root")
	}
	for _, c := range cases {
		cmd := exec.Command("unshare", "--net", "nft", "--check", "--file", "-")
		cmd.Stdin = strings.NewReader(ruleset("w1", c.w))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.what, err, out)
		}
	}
}
