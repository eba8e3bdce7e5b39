package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	server = Request{CommonName: "shop", DNSNames: []string{"shop-rw.demo.svc", "*.shop-pods.demo.svc"}}
)

func authority(t *testing.T, before []byte, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority("shop", before, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, request Request, now time.Time) Pair {
	t.Helper()
	pair, err := a.Issue(request, now)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestWhatTheAuthorityIssuesIsFitUntilTwoThirdsOfItsLifeAreOver(t *testing.T) {
	a := authority(t, nil, start)
	pair := issue(t, a, server, start)
	if err := a.Check(pair, server, start.Add(LeafLife/2)); err != nil {
		t.Errorf("after half of its life: %v", err)
	}
	if err := a.Check(pair, server, start.Add(LeafLife*3/4)); !errors.Is(err, ErrUnfit) {
		t.Errorf("after three quarters of its life: %v", err)
	}
}

func TestACertificateIsUnfit(t *testing.T) {
	a, other := authority(t, nil, start), authority(t, nil, start)
	good := issue(t, a, server, start)
	for name, pair := range map[string]Pair{
		"when there is none":                    {},
		"when its key is another's":             {good.Certificate, issue(t, a, server, start).Key},
		"when its key is garbage":               {good.Certificate, []byte("nothing")},
		"when another authority signed it":      issue(t, other, server, start),
		"when it is for other names":            issue(t, a, Request{CommonName: "shop", DNSNames: []string{"x"}}, start),
		"when it is a client's, not a server's": issue(t, a, Request{CommonName: "shop"}, start),
	} {
		t.Run(name, func(t *testing.T) {
			if err := a.Check(pair, server, start); !errors.Is(err, ErrUnfit) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAServerNameIsVerifiedThroughTheWildcard(t *testing.T) {
	a := authority(t, nil, start)
	pair := issue(t, a, server, start)
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle)
	if _, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start, DNSName: "shop-0.shop-pods.demo.svc"}); err != nil {
		t.Error(err)
	}
}

func TestANewAuthorityStillTrustsWhatTheOldOneSigned(t *testing.T) {
	old := authority(t, nil, start)
	later := start.Add(AuthorityLife * 3 / 4)
	if old.Due(start.Add(AuthorityLife/2)) || !old.Due(later) {
		t.Error("due at the wrong time")
	}
	pair := issue(t, old, server, later)
	renewed := authority(t, old.Bundle, later)
	if err := renewed.Check(pair, server, later); err != nil {
		t.Error(err)
	}
	if forgotten := authority(t, old.Bundle, start.Add(2*AuthorityLife)); len(parseCertificates(forgotten.Bundle)) != 1 {
		t.Error("an authority that has ended is still trusted")
	}
}

func TestAnAuthorityWithAnothersKeyIsUnfit(t *testing.T) {
	a, b := authority(t, nil, start), authority(t, nil, start)
	for name, key := range map[string][]byte{"another's": b.Key, "none": nil, "garbage": []byte("x")} {
		if _, err := ParseAuthority(a.Bundle, key); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseAuthority(nil, a.Key); !errors.Is(err, ErrUnfit) {
		t.Errorf("no bundle: %v", err)
	}
}
