// Package network wires a cluster: a switch in a namespace of its own, and a cable to each node, to the S3 servers and
// to the machine.
package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/topology"
)

// The names inside the switch's namespace.
const (
	switchName = "sw"
	bridge     = "br0"
	hostPort   = "host"
	// Outside is the namespace of servers that are no part of Kubernetes and live on when nodes die.
	Outside = "s3"
)

// S3Addresses are the host numbers that the outside namespace answers to.
var S3Addresses = []int{20, 21}

// Up makes all namespaces and cables.
func Up(ctx context.Context, cluster topology.Cluster) error {
	if err := batch(ctx, "", upCommands(cluster)); err != nil {
		return err
	}
	for _, node := range cluster.Nodes() {
		if err := sysctl(ctx, cluster.Prefixed(node.Name), nodeSettings(cluster)...); err != nil {
			return err
		}
	}
	// The switch must only switch: without this its packets would pass the machine's packet filter.
	return sysctl(ctx, cluster.Prefixed(switchName), "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0")
}

// nodeSettings have a node route, and show its packet filter what goes between its own pods.
func nodeSettings(cluster topology.Cluster) []string {
	settings := []string{"net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1"}
	if cluster.HasIPv6() {
		settings = append(settings, "net.ipv6.conf.all.forwarding=1", "net.bridge.bridge-nf-call-ip6tables=1")
	}
	return settings
}

// upCommands are the lines for one `ip -batch`, which is an order faster than a process per line.
func upCommands(cluster topology.Cluster) []string {
	sw := cluster.Prefixed(switchName)
	host := cluster.Prefixed(hostPort)
	commands := []string{
		"netns add " + sw,
		"link add " + bridge + " netns " + sw + " type bridge",
		fmt.Sprintf("link add %s type veth peer name %s netns %s", host, hostPort, sw),
	}
	commands = append(commands, addresses(cluster, topology.Machine, host)...)
	commands = append(commands,
		"link set "+host+" up",
		"netns add "+cluster.Prefixed(Outside),
		cable(cluster, Outside),
	)
	for _, node := range cluster.Nodes() {
		commands = append(commands, "netns add "+cluster.Prefixed(node.Name), cable(cluster, node.Name))
	}
	return commands
}

// addresses gives a device those of a host. Nobody else has them, so IPv6 need not spend a second looking for
// duplicates.
func addresses(cluster topology.Cluster, host int, device string) (commands []string) {
	for _, address := range cluster.Interfaces(host) {
		command := fmt.Sprintf("addr add %s dev %s", address, device)
		if strings.Contains(address, ":") {
			command += " nodad"
		}
		commands = append(commands, command)
	}
	return commands
}

// cable joins a namespace's eth0 to the switch.
func cable(cluster topology.Cluster, name string) string {
	return fmt.Sprintf("link add eth0 netns %s type veth peer name %s netns %s", cluster.Prefixed(name), name, cluster.Prefixed(switchName))
}

// Configure sets addresses and routes inside all namespaces.
func Configure(ctx context.Context, cluster topology.Cluster) error {
	if err := batch(ctx, cluster.Prefixed(switchName), switchCommands(cluster)); err != nil {
		return err
	}
	if err := batch(ctx, cluster.Prefixed(Outside), outsideCommands(cluster)); err != nil {
		return err
	}
	for _, node := range cluster.Nodes() {
		if err := batch(ctx, cluster.Prefixed(node.Name), nodeCommands(cluster, node)); err != nil {
			return err
		}
	}
	return nil
}

func switchCommands(cluster topology.Cluster) []string {
	commands := []string{"link set lo up", "link set " + bridge + " up"}
	ports := []string{hostPort, Outside}
	for _, node := range cluster.Nodes() {
		ports = append(ports, node.Name)
	}
	for _, port := range ports {
		commands = append(commands, fmt.Sprintf("link set %s master %s up", port, bridge))
	}
	return commands
}

func outsideCommands(cluster topology.Cluster) []string {
	commands := []string{"link set lo up"}
	for _, host := range S3Addresses {
		commands = append(commands, addresses(cluster, host, "eth0")...)
	}
	return append(append(commands, "link set eth0 up"), podRoutes(cluster, "")...)
}

func nodeCommands(cluster topology.Cluster, node topology.Node) []string {
	commands := []string{"link set lo up"}
	commands = append(commands, addresses(cluster, topology.FirstNode+node.Index, "eth0")...)
	commands = append(commands, "link set eth0 up")
	for _, nowhere := range cluster.Addresses(topology.Nowhere) {
		commands = append(commands, "route add default via "+nowhere)
	}
	return append(commands, podRoutes(cluster, node.Name)...)
}

// podRoutes leads to the pods of every node but one.
func podRoutes(cluster topology.Cluster, except string) []string {
	var routes []string
	for _, node := range cluster.Nodes() {
		if node.Name == except {
			continue
		}
		for i, pods := range node.PodCIDRs {
			routes = append(routes, fmt.Sprintf("route add %s via %s", pods, node.IPs[i]))
		}
	}
	return routes
}

// SetLink cuts or mends the cable between a node and the switch.
func SetLink(ctx context.Context, cluster topology.Cluster, node string, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return command.Run(ctx, "ip", "-n", cluster.Prefixed(switchName), "link", "set", node, state)
}

// LinkIsUp tells whether a node's cable is whole.
func LinkIsUp(ctx context.Context, cluster topology.Cluster, node string) bool {
	out, err := command.Output(ctx, "ip", "-n", cluster.Prefixed(switchName), "-o", "link", "show", node)
	return err == nil && strings.Contains(out, "state UP")
}

// Namespaces lists the cluster's network namespaces that exist, whoever left them.
func Namespaces(cluster topology.Cluster) []string {
	paths, _ := filepath.Glob(NamespacePath(cluster.Prefixed("*")))
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// NamespacePath is the file that stands for a network namespace.
func NamespacePath(name string) string { return filepath.Join("/run/netns", name) }

// Unplug removes what pods had in a node's namespace that has lost its power. The kernel keeps a dead pod's namespace for as long as one of its sockets
// has something to send: it would answer for the address of the pod that gets it next.
func Unplug(ctx context.Context, namespace string) error {
	out, err := command.Output(ctx, "ip", "-n", namespace, "-brief", "link")
	if err != nil {
		return err
	}
	for _, link := range podLinks(out) {
		if err := command.Run(ctx, "ip", "-n", namespace, "link", "del", link); err != nil {
			return err
		}
	}
	return nil
}

// podLinks are the links of a node that its pods' network made, the bridge last, from what ip prints.
func podLinks(brief string) []string {
	var pods, bridges []string
	for line := range strings.Lines(brief) {
		switch name, _, _ := strings.Cut(strings.Fields(line)[0], "@"); {
		case strings.HasPrefix(name, "veth"):
			pods = append(pods, name)
		case name != "lo" && name != "eth0":
			bridges = append(bridges, name)
		}
	}
	return append(pods, bridges...)
}

// Processes lists the processes that live in a namespace.
func Processes(ctx context.Context, namespace string) ([]int, error) {
	out, err := command.Output(ctx, "ip", "netns", "pids", namespace)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(out) {
		var pid int
		if _, err := fmt.Sscan(field, &pid); err != nil {
			return nil, fmt.Errorf("ip netns pids printed %q", field)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Down removes every namespace and the machine's end of the cable. Nobody may live in them any more.
func Down(ctx context.Context, cluster topology.Cluster) error {
	host := cluster.Prefixed(hostPort)
	if _, err := os.Stat(filepath.Join("/sys/class/net", host)); err == nil {
		if err := command.Run(ctx, "ip", "link", "del", host); err != nil {
			return err
		}
	}
	for _, namespace := range Namespaces(cluster) {
		if err := command.Run(ctx, "ip", "netns", "del", namespace); err != nil {
			return err
		}
	}
	return nil
}

func batch(ctx context.Context, namespace string, lines []string) error {
	args := []string{"ip"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	_, err := command.Command{
		Args:  append(args, "-batch", "-"),
		Stdin: strings.NewReader(strings.Join(lines, "\n") + "\n"),
	}.Output(ctx)
	return err
}

// sysctl sets kernel parameters inside a namespace. They are files of /proc, which shows those of the reader's
// namespace, so a process has to go there.
func sysctl(ctx context.Context, namespace string, settings ...string) error {
	args := append([]string{"nsenter", "--net=" + NamespacePath(namespace), "sysctl", "-qw"}, settings...)
	return command.Run(ctx, args...)
}
