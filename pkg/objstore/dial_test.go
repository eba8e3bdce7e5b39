package objstore_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

func TestAddressesThatAreNoBucketsAreRefused(t *testing.T) {
	pod := objstore.InPod(func(string) string { return "10.96.0.1" })
	anywhere := objstore.InPod(func(string) string { return "" })
	for address, want := range map[string]struct{ pod, anywhere bool }{
		"169.254.169.254":        {false, false},
		"::ffff:169.254.169.254": {false, false},
		"64:ff9b::a9fe:a9fe":     {false, false},
		"2002:a9fe:a9fe::1":      {false, false},
		"fe80::1%eth0":           {false, false},
		"fd00:ec2::254":          {false, false},
		"100.100.100.200":        {false, false},
		"127.0.0.1":              {false, true},
		"127.1.2.3":              {false, true},
		"::1":                    {false, true},
		"::ffff:127.0.0.1":       {false, true},
		"0.0.0.0":                {false, true},
		"::":                     {false, true},
		"10.96.0.1":              {false, true},
		"::ffff:10.96.0.1":       {false, true},
		"10.96.0.2":              {true, true},
		"192.0.2.7":              {true, true},
		"2001:db8::7":            {true, true},
	} {
		for name, got := range map[string]error{"pod": pod.Check(netip.MustParseAddr(address)), "anywhere": anywhere.Check(netip.MustParseAddr(address))} {
			allowed := map[string]bool{"pod": want.pod, "anywhere": want.anywhere}[name]
			if (got == nil) != allowed || got != nil && !errors.Is(got, objstore.ErrConfig) {
				t.Errorf("%s from %s: %v", address, name, got)
			}
		}
	}
}

// The name is that of this machine in its hosts file, so that no DNS is asked.
func TestTheAddressesToWhichTheNameOfTheAPIServerLeadsAreRefused(t *testing.T) {
	pod := objstore.InPod(func(string) string { return "localhost." })
	if pod.APIServer.IsValid() || pod.APIServerName != "localhost" || !pod.NoLoopback {
		t.Fatalf("%+v", pod)
	}
	policy, here, there := objstore.DialPolicy{APIServerName: "localhost"}, netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("192.0.2.7")
	for what, err := range map[string]error{
		"its address": policy.CheckDial(t.Context(), here), "its name in a URL": policy.CheckHost(t.Context(), "LOCALHOST."),
		"its address in a URL": policy.CheckHost(t.Context(), "127.0.0.1"),
	} {
		if !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), "the API server") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(policy.CheckDial(t.Context(), there), policy.CheckHost(t.Context(), "s3.example"), policy.CheckHost(t.Context(), "192.0.2.7")); err != nil {
		t.Errorf("another server: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	policy.APIServerName = "kubernetes.example.invalid"
	if err := policy.CheckDial(ended, there); err == nil {
		t.Error("where the API server is can't be known, and anything may be dialled")
	}
}
