// Package network builds the NetworkPolicy of a cluster.
package network

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// Ports of the API server, of its Service and of itself. NetworkPolicies see one or the other, depending on who enforces them, and
// can't name the API server in another way than by addresses, which change.
var apiServerPorts = []int32{443, 6443}

// Ports of DNS, of its Service and, on OpenShift, of the pods behind that: OVN-Kubernetes looks at where a packet goes in the end.
var dnsPorts = []int32{53, 5353}

// Policy is the NetworkPolicy that spec wants, nil if it wants none. It applies to all pods of the cluster, those of Jobs too. The
// controllers are in the namespace of the suite; if that is not known, pods with their labels in every namespace are taken for them,
// and have to prove with a certificate who they are.
func Policy(cluster *v1alpha1.PostgresCluster, suite string) *networkingv1.NetworkPolicy {
	wanted := cluster.Spec.NetworkPolicy
	if wanted == nil {
		return nil
	}
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: component.Meta(cluster, component.NamesOf(cluster).NetworkPolicy(), component.Access),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: own(cluster)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     ingress(cluster, wanted, suite),
		},
	}
	if len(wanted.Egress) > 0 {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		policy.Spec.Egress = egress(cluster, wanted)
	}
	return policy
}

func own(cluster *v1alpha1.PostgresCluster) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
}

func ownPods(cluster *v1alpha1.PostgresCluster) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: own(cluster)}}
}

func ingress(cluster *v1alpha1.PostgresCluster, wanted *v1alpha1.NetworkPolicy, suite string) []networkingv1.NetworkPolicyIngressRule {
	clients := peers(wanted.Clients)
	if len(clients) == 0 {
		clients = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	} else {
		clients = append(clients, jobs(workload.ComponentInit), jobs(workload.ComponentTableRestore))
	}
	rules := []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{ownPods(cluster)}, Ports: betweenInstances()},
		{From: []networkingv1.NetworkPolicyPeer{controllers(suite)}, Ports: ports(agentapi.AgentPort)},
		{From: clients, Ports: ports(agentapi.PostgresPort)},
	}
	if len(wanted.Metrics) > 0 {
		scraped := append([]int32{agentapi.AgentPort, agentapi.MetricsPort}, ownPorts(cluster)...)
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: peers(wanted.Metrics), Ports: ports(scraped...)})
	}
	return rules
}

// jobs of other clusters in the namespace: init Jobs may clone this one, and log in with a certificate of it; Jobs that restore tables read a temporary copy.
func jobs(component string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.LabelComponent: component, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
	}}}
}

// ownPorts are those of the containers that spec adds.
func ownPorts(cluster *v1alpha1.PostgresCluster) (numbers []int32) {
	for _, container := range cluster.Spec.Pods.Containers {
		for _, port := range container.Ports {
			numbers = append(numbers, port.ContainerPort)
		}
	}
	return numbers
}

func controllers(suite string) networkingv1.NetworkPolicyPeer {
	namespaces := &metav1.LabelSelector{}
	if suite != "" {
		namespaces.MatchLabels = map[string]string{corev1.LabelMetadataName: suite}
	}
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: namespaces,
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"app.kubernetes.io/name": "db-controller", "app.kubernetes.io/part-of": "howdah",
		}},
	}
}

func egress(cluster *v1alpha1.PostgresCluster, wanted *v1alpha1.NetworkPolicy) []networkingv1.NetworkPolicyEgressRule {
	rules := []networkingv1.NetworkPolicyEgressRule{
		{To: []networkingv1.NetworkPolicyPeer{ownPods(cluster)}, Ports: betweenInstances()},
		{Ports: append(over(corev1.ProtocolUDP, dnsPorts...), ports(dnsPorts...)...)},
		{Ports: ports(apiServerPorts...)},
	}
	if source := sourceOf(cluster); source != nil {
		rules = append(rules, *source)
	}
	for _, destination := range wanted.Egress {
		var numbers []int32
		for _, port := range destination.Ports {
			numbers = append(numbers, int32(port))
		}
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{
			To: peers([]v1alpha1.NetworkPeer{destination.NetworkPeer}), Ports: ports(numbers...),
		})
	}
	return rules
}

// sourceOf lets the init Job reach the server that it imports from, or the cluster that it clones, until the cluster has run. Where that is a name, nothing is known of its
// address, so only the port is.
func sourceOf(cluster *v1alpha1.PostgresCluster) *networkingv1.NetworkPolicyEgressRule {
	bootstrap := cluster.Spec.Bootstrap
	switch {
	case bootstrap == nil || cluster.Status.SystemIdentifier != "":
		return nil
	case bootstrap.Clone != nil:
		source := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: bootstrap.Clone.Cluster.Name}}
		return &networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{ownPods(source)}, Ports: ports(agentapi.PostgresPort)}
	case bootstrap.Import == nil:
		return nil
	}
	rule := &networkingv1.NetworkPolicyEgressRule{Ports: ports(bootstrap.Import.Source.Port)}
	if address, err := netip.ParseAddr(bootstrap.Import.Source.Host); err == nil {
		rule.To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(address, address.BitLen()).String()}}}
	}
	return rule
}

func peers(from []v1alpha1.NetworkPeer) (all []networkingv1.NetworkPolicyPeer) {
	for _, peer := range from {
		if peer.CIDR != "" {
			all = append(all, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: peer.CIDR}})
			continue
		}
		selected := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: plain(peer.Pods)}}
		if len(peer.Namespaces) > 0 {
			selected.NamespaceSelector = &metav1.LabelSelector{MatchLabels: plain(peer.Namespaces)}
		}
		all = append(all, selected)
	}
	return all
}

func plain(labels v1alpha1.NetworkLabels) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	all := map[string]string{}
	for key, value := range labels {
		all[key] = string(value)
	}
	return all
}

// betweenInstances are the ports of the server and of the agent, and that of the datagrams between agents.
func betweenInstances() []networkingv1.NetworkPolicyPort {
	return append(ports(agentapi.PostgresPort, agentapi.AgentPort), over(corev1.ProtocolUDP, agentapi.AgentPort)...)
}

func ports(numbers ...int32) []networkingv1.NetworkPolicyPort {
	return over(corev1.ProtocolTCP, numbers...)
}

func over(protocol corev1.Protocol, numbers ...int32) (all []networkingv1.NetworkPolicyPort) {
	for _, number := range numbers {
		port := intstr.FromInt32(number)
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
	}
	return all
}
