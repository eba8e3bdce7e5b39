package objstore

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// DialPolicy says which addresses are not dialled, whatever name leads there. Link-local addresses, and others at which clouds
// offer credentials to their machines, never are: a bucket is named by a tenant, and such an address is no bucket.
type DialPolicy struct {
	// NoLoopback refuses this host's own addresses.
	NoLoopback bool
	// APIServer is refused, too, if it is known.
	APIServer netip.Addr
	// APIServerName is its name, if that is known instead: what it leads to is refused whenever something is dialled.
	APIServerName string
}

// InPod is the policy of a controller that runs in a pod and opens the repositories of others. Its pod's own ports and the API
// server trust more than a tenant may ask for. Elsewhere, where the environment names no API server, it allows both.
func InPod(getenv func(string) string) DialPolicy {
	host := getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return DialPolicy{}
	}
	policy := DialPolicy{NoLoopback: true}
	if server, err := netip.ParseAddr(host); err == nil {
		policy.APIServer = server.Unmap()
	} else {
		policy.APIServerName = strings.TrimSuffix(host, ".")
	}
	return policy
}

// CheckDial is Check for an address that is about to be dialled, and asks where the name of the API server leads.
func (p DialPolicy) CheckDial(ctx context.Context, address netip.Addr) error {
	if err := p.Check(address); err != nil || p.APIServerName == "" {
		return err
	}
	servers, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.APIServerName)
	if err != nil {
		return fmt.Errorf("%w: it isn't known where the API server is, which must not be dialled for a bucket: %s", ErrUnavailable, err.Error())
	}
	for _, server := range servers {
		p.APIServer = server.WithZone("").Unmap()
		if err := p.Check(address); err != nil {
			return err
		}
	}
	return nil
}

// CheckHost refuses the host of a URL, which a proxy would dial.
func (p DialPolicy) CheckHost(ctx context.Context, host string) error {
	if address, err := netip.ParseAddr(host); err == nil {
		return p.CheckDial(ctx, address)
	}
	if p.APIServerName != "" && strings.EqualFold(strings.TrimSuffix(host, "."), p.APIServerName) {
		return refuse("the address of the API server")
	}
	return nil
}

// metadata are the addresses of clouds' services for their machines that are not link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// nat64 and sixToFour are prefixes of addresses that have an address of IPv4 in them.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// Check refuses an address; the error wraps ErrConfig, and is a sentence that doesn't tell what is there.
func (p DialPolicy) Check(address netip.Addr) error {
	address = inner(address.WithZone("").Unmap())
	switch {
	case address.IsLinkLocalUnicast(), address.IsLinkLocalMulticast(), address.IsInterfaceLocalMulticast():
		return refuse("a link-local address")
	case slices.Contains(metadata, address):
		return refuse("the address of a cloud's metadata service")
	case p.NoLoopback && (address.IsLoopback() || address.IsUnspecified()):
		return refuse("an address of the controller's own pod")
	case address == p.APIServer:
		return refuse("the address of the API server")
	}
	return nil
}

func refuse(what string) error {
	return fmt.Errorf("%w: The endpoint leads to %s, which is not dialled for a bucket; write the URL of an object store", ErrConfig, what)
}

// inner is the address of IPv4 to which a translator or tunnel would lead.
func inner(address netip.Addr) netip.Addr {
	bytes := address.As16()
	switch {
	case nat64.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[12:16]))
	case sixToFour.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return address
}
