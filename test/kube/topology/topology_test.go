package topology

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNamesAndSizesThatCanNotBeAreRefused(t *testing.T) {
	for _, name := range []string{"", "Howdah", "a-b", "9a", "tenletters", "a/b", "é"} {
		if _, err := New(name, "/cache", Shape{Workers: 3, IP: IPv4}); err == nil {
			t.Errorf("name %q passes", name)
		}
	}
	if _, err := New("a", "/cache", Shape{Workers: 1, IP: "ipv6"}); err == nil || !strings.Contains(err.Error(), "write IPv4, IPv6 or DualStack") {
		t.Errorf("addresses that there aren't: %v", err)
	}
	for _, workers := range []int{-1, 0, MaxWorkers + 1} {
		if _, err := New("a", "/cache", Shape{Workers: workers, IP: IPv4}); err == nil {
			t.Errorf("%d workers pass", workers)
		}
	}
}

func TestNoTwoThingsHaveOneAddress(t *testing.T) {
	for _, ip := range []Stack{IPv4, IPv6, DualStack} {
		cluster, err := New("e2e", "/cache", Shape{Workers: MaxWorkers, IP: ip})
		if err != nil {
			t.Fatal(err)
		}
		taken := map[string]string{}
		take := func(who, address string, networks []string, family int) {
			if other := taken[address]; other != "" {
				t.Errorf("%s: %s and %s both have %s", ip, who, other, address)
			}
			taken[address] = who
			if network := netip.MustParsePrefix(networks[family]); !network.Overlaps(prefix(address)) {
				t.Errorf("%s: %s of %s is outside of %s", ip, address, who, network)
			}
		}
		for who, host := range map[string]int{"machine": Machine, "nowhere": Nowhere, "minio": 20, "versitygw": 21} {
			for i, address := range cluster.Addresses(host) {
				take(who, address, cluster.NodeNetworks(), i)
			}
		}
		for _, node := range cluster.Nodes() {
			for i := range families[ip] {
				take(node.Name, node.IPs[i], cluster.NodeNetworks(), i)
				take(node.Name, node.PodCIDRs[i], cluster.PodNetworks(), i)
			}
		}
		take("API server", cluster.ServiceAPI(), cluster.ServiceNetworks(), 0)
		take("DNS", cluster.ServiceDNS(), cluster.ServiceNetworks(), 0)
	}
}

// prefix is that of a network, or of a single address.
func prefix(address string) netip.Prefix {
	if single, err := netip.ParseAddr(address); err == nil {
		return netip.PrefixFrom(single, single.BitLen())
	}
	return netip.MustParsePrefix(address)
}

func TestClustersOfDifferentNamesShareNothingOnTheMachine(t *testing.T) {
	first, _ := New(DefaultName, "/cache", Shape{Workers: 1, IP: DualStack})
	second, _ := New("e2e", "/cache", Shape{Workers: 1, IP: DualStack})
	for i, network := range first.NodeNetworks() {
		if network == second.NodeNetworks()[i] {
			t.Errorf("%s is the network of both", network)
		}
	}
	if first.Dir() == second.Dir() || first.Prefixed("cp") == second.Prefixed("cp") {
		t.Errorf("%+v and %+v share something", first, second)
	}
}

func TestZonesAreSpreadOverWorkers(t *testing.T) {
	cluster, _ := New(DefaultName, "/cache", Shape{Workers: 4, IP: IPv4})
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
	cluster, _ := New(DefaultName, "/cache", Shape{Workers: 3, IP: IPv4})
	if _, err := cluster.Node("w4"); err == nil || !strings.Contains(err.Error(), "cp or w1 to w3") {
		t.Errorf("got %v", err)
	}
}
