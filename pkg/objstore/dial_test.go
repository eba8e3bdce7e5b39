package objstore_test

import (
	"errors"
	"net/netip"
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
