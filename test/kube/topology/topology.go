// Package topology names everything that a test cluster consists of: nodes, addresses, folders, namespaces.
// It decides nothing and touches nothing; the other packages act on what it says.
package topology

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"regexp"
)

// DefaultName is the cluster that is meant when nobody says otherwise.
const DefaultName = "howdah"

// Addresses inside the cluster. They live in the nodes' network namespaces, so that two clusters may share them.
const (
	PodNetwork     = "10.245.0.0/16"
	ServiceNetwork = "10.96.0.0/16"
	ServiceAPI     = "10.96.0.1"
	ServiceDNS     = "10.96.0.10"
	ClusterDomain  = "cluster.local"
)

// MaxWorkers is what fits between the control plane's address and those of the S3 servers.
const MaxWorkers = 9

// ControlPlane is the name of the first node.
const ControlPlane = "cp"

// validName keeps the names of network interfaces (at most 15 characters, "-host" appended) and of cgroups legal.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,8}$`)

// Cluster says where a cluster is and how large.
type Cluster struct {
	Name    string `json:"name"`
	Cache   string `json:"cache"` // the cache folder that holds everything
	Workers int    `json:"workers"`
	Bin     string `json:"bin"` // folder with the programs that the nodes run
}

// Node is one machine of the cluster.
type Node struct {
	Name    string
	Index   int // 0 is the control plane
	IP      string
	PodCIDR string
	Zone    string
}

// New checks name and size.
func New(name, cache string, workers int) (Cluster, error) {
	if !validName.MatchString(name) {
		return Cluster{}, fmt.Errorf("cluster name %q: write one to nine lower-case letters or digits, a letter first", name)
	}
	if workers < 1 || workers > MaxWorkers {
		return Cluster{}, fmt.Errorf("%d workers: write a number from 1 to %d", workers, MaxWorkers)
	}
	return Cluster{Name: name, Cache: cache, Workers: workers}, nil
}

// subnet returns the first three parts of the nodes' network. Each name has its own, because the machine itself is
// in all of them.
func (c Cluster) subnet() string {
	if c.Name == DefaultName {
		return "198.19.0"
	}
	hash := fnv.New32a()
	hash.Write([]byte(c.Name))
	return fmt.Sprintf("198.19.%d", 1+hash.Sum32()%254)
}

// Address returns an address in the nodes' network.
func (c Cluster) Address(host int) string { return fmt.Sprintf("%s.%d", c.subnet(), host) }

// NodeNetwork is the network that nodes, S3 servers and the machine share.
func (c Cluster) NodeNetwork() string { return c.subnet() + ".0/24" }

// HostAddress is the machine's own address in the nodes' network.
func (c Cluster) HostAddress() string { return c.Address(254) }

// Nowhere is an address that nobody has: components want a default route, and nothing may leave through it.
func (c Cluster) Nowhere() string { return c.Address(253) }

// APIServer is the address that clients connect to.
func (c Cluster) APIServer() string { return "https://" + c.Address(10) + ":6443" }

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
		Name:    name,
		Index:   index,
		IP:      c.Address(10 + index),
		PodCIDR: fmt.Sprintf("10.245.%d.0/24", index),
		Zone:    fmt.Sprintf("zone-%d", max(1, (index-1)%3+1)),
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
