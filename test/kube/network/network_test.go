package network

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/test/kube/topology"
)

func TestANodeReachesThePodsOfAllOthersThroughThem(t *testing.T) {
	cluster, err := topology.New(topology.DefaultName, "/cache", topology.Shape{Workers: 2, IP: topology.IPv4})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Node("w1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"link set lo up",
		"addr add 198.19.0.11/24 dev eth0",
		"link set eth0 up",
		"route add default via 198.19.0.253",
		"route add 10.245.0.0/24 via 198.19.0.10",
		"route add 10.245.2.0/24 via 198.19.0.12",
	}
	if got := nodeCommands(cluster, node); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestANodeOfTwoFamiliesHasBoth(t *testing.T) {
	cluster, err := topology.New(topology.DefaultName, "/cache", topology.Shape{Workers: 1, IP: topology.DualStack})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Node("w1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"link set lo up",
		"addr add 198.19.0.11/24 dev eth0",
		"addr add fd19:0:0:0::11/64 dev eth0 nodad",
		"link set eth0 up",
		"route add default via 198.19.0.253",
		"route add default via fd19:0:0:0::253",
		"route add 10.245.0.0/24 via 198.19.0.10",
		"route add fd45:0:0:0::/64 via fd19:0:0:0::10",
	}
	if got := nodeCommands(cluster, node); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestServersOutsideReachThePodsOfEveryNode(t *testing.T) {
	cluster, err := topology.New(topology.DefaultName, "/cache", topology.Shape{Workers: 1, IP: topology.IPv4})
	if err != nil {
		t.Fatal(err)
	}
	got := outsideCommands(cluster)
	for _, want := range []string{"addr add 198.19.0.20/24 dev eth0", "addr add 198.19.0.21/24 dev eth0", "route add 10.245.0.0/24 via 198.19.0.10", "route add 10.245.1.0/24 via 198.19.0.11"} {
		if !slices.Contains(got, want) {
			t.Errorf("lacks %q: %q", want, got)
		}
	}
}

func TestThePodsNetworkOfANodeIsRemovedAndNothingElse(t *testing.T) {
	const brief = `lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP>
eth0@if6         DOWN           8e:7c:8b:55:9a:ca <NO-CARRIER,BROADCAST,MULTICAST,UP>
cni0             UP             76:58:eb:8f:45:48 <BROADCAST,MULTICAST,UP,LOWER_UP>
vethfec6b1b8@if2 UP             4a:c4:17:00:8a:d8 <BROADCAST,MULTICAST,UP,LOWER_UP>
veth8c453e9a@if2 UP             ca:fb:f2:e0:ee:68 <BROADCAST,MULTICAST,UP,LOWER_UP>
`
	if got := strings.Join(podLinks(brief), " "); got != "vethfec6b1b8 veth8c453e9a cni0" {
		t.Errorf("%s", got)
	}
}
