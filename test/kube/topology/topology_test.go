package topology

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNamesAndSizesThatCanNotBeAreRefused(t *testing.T) {
	for _, name := range []string{"", "Howdah", "a-b", "9a", "tenletters", "a/b", "é"} {
		if _, err := New(name, "/cache", 3); err == nil {
			t.Errorf("name %q passes", name)
		}
	}
	for _, workers := range []int{-1, 0, MaxWorkers + 1} {
		if _, err := New("a", "/cache", workers); err == nil {
			t.Errorf("%d workers pass", workers)
		}
	}
}

func TestNoTwoThingsHaveOneAddress(t *testing.T) {
	cluster, err := New(DefaultName, "/cache", MaxWorkers)
	if err != nil {
		t.Fatal(err)
	}
	network := netip.MustParsePrefix(cluster.NodeNetwork())
	taken := map[string]string{cluster.HostAddress(): "host", cluster.Nowhere(): "nowhere", cluster.Address(20): "minio", cluster.Address(21): "versitygw"}
	for _, node := range cluster.Nodes() {
		for _, address := range []string{node.IP, node.PodCIDR} {
			if other := taken[address]; other != "" {
				t.Errorf("%s and %s both have %s", node.Name, other, address)
			}
			taken[address] = node.Name
		}
		if !network.Contains(netip.MustParseAddr(node.IP)) {
			t.Errorf("%s is outside of %s", node.IP, network)
		}
		if !netip.MustParsePrefix(PodNetwork).Overlaps(netip.MustParsePrefix(node.PodCIDR)) {
			t.Errorf("%s is outside of %s", node.PodCIDR, PodNetwork)
		}
	}
}

func TestClustersOfDifferentNamesShareNothingOnTheMachine(t *testing.T) {
	first, _ := New(DefaultName, "/cache", 1)
	second, _ := New("e2e", "/cache", 1)
	if first.NodeNetwork() == second.NodeNetwork() || first.Dir() == second.Dir() || first.Prefixed("cp") == second.Prefixed("cp") {
		t.Errorf("%+v and %+v share something", first, second)
	}
}

func TestZonesAreSpreadOverWorkers(t *testing.T) {
	cluster, _ := New(DefaultName, "/cache", 4)
	var zones []string
	for _, node := range cluster.Nodes() {
		zones = append(zones, node.Name+"="+node.Zone)
	}
	const want = "cp=zone-1 w1=zone-1 w2=zone-2 w3=zone-3 w4=zone-1"
	if got := strings.Join(zones, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestANodeThatIsNotThereIsRefusedWithThoseThatAre(t *testing.T) {
	cluster, _ := New(DefaultName, "/cache", 3)
	if _, err := cluster.Node("w4"); err == nil || !strings.Contains(err.Error(), "cp or w1 to w3") {
		t.Errorf("got %v", err)
	}
}
