// Package topology names everything that a test cluster consists of: nodes, addresses, folders, namespaces.
// It decides nothing and touches nothing; the other packages act on what it says.
package topology

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
)

// DefaultName is the cluster that is meant when nobody says otherwise.
const DefaultName = "howdah"

// ClusterDomain is the domain of Services.
const ClusterDomain = "cluster.local"

// MaxWorkers is what fits between the control plane's address and those of the S3 servers.
const MaxWorkers = 9

// ControlPlane is the name of the first node.
const ControlPlane = "cp"

// validName keeps the names of network interfaces (at most 15 characters, "-host" appended) and of cgroups legal.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,8}$`)

// Cluster says where a cluster is and what it is like.
type Cluster struct {
	Shape
	Name  string `json:"name"`
	Cache string `json:"cache"` // the cache folder that holds everything
	Bin   string `json:"bin"`   // folder with the programs that the nodes run
}

// Shape is what clusters differ in.
type Shape struct {
	Workers    int    `json:"workers"`
	IP         Stack  `json:"ip"`
	Kubernetes string `json:"kubernetes"` // minor version, such as 1.36; empty: the newest
}

func (s Shape) String() string {
	return fmt.Sprintf("%d workers with %s addresses and Kubernetes %s", s.Workers, s.IP, cmp.Or(s.Kubernetes, "of the newest version"))
}

// Node is one machine of the cluster.
type Node struct {
	Name     string
	Index    int      // 0 is the control plane
	IPs      []string // one of each family, as all that follows; the first is the primary one
	PodCIDRs []string
	Zone     string
}

// IP is the node's primary address.
func (n Node) IP() string { return n.IPs[0] }

// New checks name and size.
func New(name, cache string, shape Shape) (Cluster, error) {
	if !validName.MatchString(name) {
		return Cluster{}, fmt.Errorf("cluster name %q: write one to nine lower-case letters or digits, a letter first", name)
	}
	if shape.Workers < 1 || shape.Workers > MaxWorkers {
		return Cluster{}, fmt.Errorf("%d workers: write a number from 1 to %d", shape.Workers, MaxWorkers)
	}
	if families[shape.IP] == nil {
		return Cluster{}, fmt.Errorf("%q addresses: write %s, %s or %s", shape.IP, IPv4, IPv6, DualStack)
	}
	return Cluster{Shape: shape, Name: name, Cache: cache}, nil
}

// Nodes lists all nodes, the control plane first.
func (c Cluster) Nodes() []Node {
	nodes := make([]Node, 0, c.Workers+1)
	for i := range c.Workers + 1 {
		nodes = append(nodes, c.node(i))
	}
	return nodes
}

func (c Cluster) node(index int) Node {
	name := ControlPlane
	if index > 0 {
		name = fmt.Sprintf("w%d", index)
	}
	return Node{
		Name:     name,
		Index:    index,
		IPs:      c.Addresses(FirstNode + index),
		PodCIDRs: c.each(func(f family) string { return fmt.Sprintf(f.podCIDR, index) }),
		Zone:     fmt.Sprintf("zone-%d", max(1, (index-1)%3+1)),
	}
}

// Node finds a node by its name.
func (c Cluster) Node(name string) (Node, error) {
	for _, node := range c.Nodes() {
		if node.Name == name {
			return node, nil
		}
	}
	return Node{}, fmt.Errorf("no node %q: write cp or w1 to w%d", name, c.Workers)
}

// IsControlPlane tells whether the API server runs here.
func (n Node) IsControlPlane() bool { return n.Index == 0 }

// Prefixed names a namespace, a bridge or a cgroup of this cluster on the machine.
func (c Cluster) Prefixed(name string) string { return c.Name + "-" + name }

// Dir is the folder that holds all state of the cluster; nothing of it outlives `down`.
func (c Cluster) Dir() string { return filepath.Join(c.Cache, "run", c.Name) }

// Path is a file or folder below Dir.
func (c Cluster) Path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir()}, parts...)...)
}

// NodePath is a file or folder of one node.
func (c Cluster) NodePath(node string, parts ...string) string {
	return c.Path(append([]string{"nodes", node}, parts...)...)
}
