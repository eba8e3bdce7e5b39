package network

import (
	"slices"
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
