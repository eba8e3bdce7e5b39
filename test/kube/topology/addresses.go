package topology

import (
	"fmt"
	"hash/fnv"
	"net"
)

// Stack says which families of addresses a cluster has.
type Stack string

// Stacks that a cluster may have. The addresses of a DualStack cluster are IPv4 first.
const (
	IPv4      Stack = "IPv4"
	IPv6      Stack = "IPv6"
	DualStack Stack = "DualStack"
)

// family holds the addresses of one family. Those of pods and Services live in the nodes' network namespaces, so that two clusters
// may share them. The machine itself is in the network of all nodes, so that each cluster has one of its own.
type family struct {
	nodes                            string // a format of the cluster's number and the host's
	nodeNetwork                      string // a format of the cluster's number
	bits                             int    // of the prefix of the nodes' network
	pods, podCIDR                    string // podCIDR is a format of the node's number
	services, serviceAPI, serviceDNS string
	everywhere                       string // the destination of a default route
}

var (
	ipv4 = family{
		nodes: "198.19.%d.%d", nodeNetwork: "198.19.%d.0/24", bits: 24,
		pods: "10.245.0.0/16", podCIDR: "10.245.%d.0/24",
		services: "10.96.0.0/16", serviceAPI: "10.96.0.1", serviceDNS: "10.96.0.10", everywhere: "0.0.0.0/0",
	}
	ipv6 = family{
		nodes: "fd19:0:0:%d::%d", nodeNetwork: "fd19:0:0:%d::/64", bits: 64,
		pods: "fd45::/48", podCIDR: "fd45:0:0:%d::/64",
		services: "fd96::/112", serviceAPI: "fd96::1", serviceDNS: "fd96::10", everywhere: "::/0",
	}
	families = map[Stack][]family{IPv4: {ipv4}, IPv6: {ipv6}, DualStack: {ipv4, ipv6}}
)

// each asks every family of the cluster, the primary one first.
func (c Cluster) each(of func(family) string) (all []string) {
	for _, f := range families[c.IP] {
		all = append(all, of(f))
	}
	return all
}

// HasIPv6 says whether anything has an address of IPv6.
func (c Cluster) HasIPv6() bool { return c.IP != IPv4 }

// number tells the networks of clusters apart.
func (c Cluster) number() uint32 {
	if c.Name == DefaultName {
		return 0
	}
	hash := fnv.New32a()
	hash.Write([]byte(c.Name))
	return 1 + hash.Sum32()%254
}

// Addresses of a host in the nodes' network.
func (c Cluster) Addresses(host int) []string {
	return c.each(func(f family) string { return fmt.Sprintf(f.nodes, c.number(), host) })
}

// Interfaces are the addresses of a host with the length of their prefix.
func (c Cluster) Interfaces(host int) []string {
	return c.each(func(f family) string { return fmt.Sprintf(f.nodes+"/%d", c.number(), host, f.bits) })
}

// Address is the primary address of a host in the nodes' network.
func (c Cluster) Address(host int) string { return c.Addresses(host)[0] }

// NodeNetworks are what nodes, S3 servers and the machine share.
func (c Cluster) NodeNetworks() []string {
	return c.each(func(f family) string { return fmt.Sprintf(f.nodeNetwork, c.number()) })
}

// Hosts in the nodes' network.
const (
	// FirstNode is the control plane.
	FirstNode = 10
	// Machine is this machine's own end of the cable.
	Machine = 254
	// Nowhere is a host that there isn't: components want a default route, and nothing may leave through it.
	Nowhere = 253
)

// PodNetworks have the addresses of all pods.
func (c Cluster) PodNetworks() []string { return c.each(func(f family) string { return f.pods }) }

// Everywhere are the destinations of default routes.
func (c Cluster) Everywhere() []string { return c.each(func(f family) string { return f.everywhere }) }

// ServiceNetworks have the addresses of all Services.
func (c Cluster) ServiceNetworks() []string {
	return c.each(func(f family) string { return f.services })
}

// ServiceAPI is the address of the Service of the API server.
func (c Cluster) ServiceAPI() string { return families[c.IP][0].serviceAPI }

// ServiceDNS is the address of the DNS server.
func (c Cluster) ServiceDNS() string { return families[c.IP][0].serviceDNS }

// Registry is where nodes look for images over plain HTTP: a port of this machine that only they can reach. The cluster has no registry; whoever
// wants one listens there.
func (c Cluster) Registry() string { return net.JoinHostPort(c.Address(Machine), "5000") }

// APIServer is the address that clients connect to.
func (c Cluster) APIServer() string {
	return "https://" + net.JoinHostPort(c.Address(FirstNode), "6443")
}
