package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// world is what rules are made from.
type world struct {
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces map[string]labels.Set
}

// direction is how traffic goes, seen from the pod that a policy applies to.
type direction struct {
	kind         networkingv1.PolicyType
	local, other string // which address of a packet is the pod's, and which is the peer's
}

var (
	outward = direction{kind: networkingv1.PolicyTypeEgress, local: "saddr", other: "daddr"}
	inward  = direction{kind: networkingv1.PolicyTypeIngress, local: "daddr", other: "saddr"}
)

// rule is what ingress and egress rules have in common.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// begin replaces the table as a whole.
const begin = `table inet policies
delete table inet policies
table inet policies {
`

// ruleset is what nft makes of the policies that apply to the pods of a node.
func ruleset(node string, w world) string {
	var text strings.Builder
	text.WriteString(begin)
	jumps := map[direction][]string{}
	for _, pod := range sorted(w.pods) {
		if pod.Spec.NodeName != node || !addressed(pod) {
			continue
		}
		for _, way := range []direction{outward, inward} {
			rules, isolated := w.applying(pod, way)
			if !isolated {
				continue
			}
			name := fmt.Sprintf("%s-%s", strings.ToLower(string(way.kind)), pod.UID)
			fmt.Fprintf(&text, "\tchain %s { # %s/%s\n", name, pod.Namespace, pod.Name)
			for _, line := range w.allowed(pod, way, rules) {
				fmt.Fprintf(&text, "\t\t%s return\n", line)
			}
			text.WriteString("\t\tdrop\n\t}\n")
			for _, match := range addresses(way.local, []*corev1.Pod{pod}) {
				jumps[way] = append(jumps[way], fmt.Sprintf("\t\t%s jump %s\n", match, name))
			}
		}
	}
	// What the node itself sends and receives, such as probes, isn't forwarded. Pods of one node find each other by neighbor discovery, which
	// the bridge shows to the filter too.
	text.WriteString("\tchain forward {\n\t\ttype filter hook forward priority 10; policy accept;\n")
	text.WriteString("\t\tct state established,related accept\n\t\ticmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept\n")
	text.WriteString(strings.Join(jumps[outward], "") + strings.Join(jumps[inward], "") + "\t}\n}\n")
	return text.String()
}

// sorted has the same rules come out of the same pods.
func sorted(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// addressed says whether a pod has an address of its own: one that has ended still names what may now be another's.
func addressed(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && len(pod.Status.PodIPs) > 0 && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// applying are the rules of all policies that select a pod, and whether there is such a policy.
func (w world) applying(pod *corev1.Pod, way direction) (rules []rule, isolated bool) {
	policies := slices.SortedFunc(slices.Values(w.policies), func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) })
	for _, policy := range policies {
		if policy.Namespace != pod.Namespace || !slices.Contains(policy.Spec.PolicyTypes, way.kind) || !selects(&policy.Spec.PodSelector, pod.Labels) {
			continue
		}
		isolated = true
		if way == inward {
			for _, in := range policy.Spec.Ingress {
				rules = append(rules, rule{peers: in.From, ports: in.Ports})
			}
			continue
		}
		for _, out := range policy.Spec.Egress {
			rules = append(rules, rule{peers: out.To, ports: out.Ports})
		}
	}
	return rules, isolated
}

// allowed are the matches of what may pass. A pod may always reach itself, also by way of a Service.
func (w world) allowed(pod *corev1.Pod, way direction, rules []rule) []string {
	lines := addresses(way.other, []*corev1.Pod{pod})
	for _, r := range rules {
		for _, peer := range w.peers(pod.Namespace, way, r.peers) {
			for _, port := range portsOf(pod, way, r.ports) {
				lines = append(lines, strings.TrimSpace(peer+" "+port))
			}
		}
	}
	return lines
}

// peers are matches of those that a rule names: of everybody if it names nobody.
func (w world) peers(namespace string, way direction, peers []networkingv1.NetworkPolicyPeer) (matches []string) {
	if len(peers) == 0 {
		return []string{""}
	}
	var pods []*corev1.Pod
	for _, peer := range peers {
		if peer.IPBlock != nil {
			matches = append(matches, block(way.other, peer.IPBlock))
			continue
		}
		for _, pod := range sorted(w.pods) {
			if addressed(pod) && w.names(peer, namespace, pod) && !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		}
	}
	return append(matches, addresses(way.other, pods)...)
}

// names says whether a peer of a policy in a namespace is this pod.
func (w world) names(peer networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	if peer.NamespaceSelector == nil {
		return pod.Namespace == namespace && selects(peer.PodSelector, pod.Labels)
	}
	known, there := w.namespaces[pod.Namespace]
	return there && selects(peer.NamespaceSelector, known) && (peer.PodSelector == nil || selects(peer.PodSelector, pod.Labels))
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(set)
}

// addresses are matches of pods, one for each family that they have.
func addresses(side string, pods []*corev1.Pod) (matches []string) {
	families := map[string][]string{}
	for _, pod := range pods {
		for _, address := range pod.Status.PodIPs {
			families[family(address.IP)] = append(families[family(address.IP)], address.IP)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		matches = append(matches, fmt.Sprintf("%s %s { %s }", name, side, strings.Join(families[name], ", ")))
	}
	return matches
}

// family is what nft calls that of an address or a range.
func family(address string) string {
	if strings.Contains(address, ":") {
		return "ip6"
	}
	return "ip"
}

func block(side string, wanted *networkingv1.IPBlock) string {
	match := fmt.Sprintf("%s %s %s", family(wanted.CIDR), side, wanted.CIDR)
	for _, except := range wanted.Except {
		match += fmt.Sprintf(" %s %s != %s", family(except), side, except)
	}
	return match
}

// portsOf are matches of the ports that a rule names: of all traffic if it names none. A port's name means that of a container of the pod
// itself, so nothing goes out by a name.
func portsOf(pod *corev1.Pod, way direction, ports []networkingv1.NetworkPolicyPort) (matches []string) {
	if len(ports) == 0 {
		return []string{""}
	}
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		layer := strings.ToLower(string(protocol))
		switch {
		case port.Port == nil:
			matches = append(matches, "meta l4proto "+layer)
		case port.Port.Type == intstr.Int && port.EndPort != nil:
			matches = append(matches, fmt.Sprintf("%s dport %d-%d", layer, port.Port.IntVal, *port.EndPort))
		case port.Port.Type == intstr.Int:
			matches = append(matches, fmt.Sprintf("%s dport %d", layer, port.Port.IntVal))
		case way == inward:
			for _, number := range named(pod, port.Port.StrVal, protocol) {
				matches = append(matches, fmt.Sprintf("%s dport %d", layer, number))
			}
		}
	}
	return matches
}

// named are the ports of a pod's containers with a name.
func named(pod *corev1.Pod, name string, protocol corev1.Protocol) (numbers []int32) {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name && cmp.Or(port.Protocol, corev1.ProtocolTCP) == protocol {
				numbers = append(numbers, port.ContainerPort)
			}
		}
	}
	return numbers
}
