package servertls

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestTheLastGoodCAsStayWhenTheNewOnesCantBeUsed(t *testing.T) {
	good := newCA(t, "company", nil)
	configMap := &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}}
	secret := &v1alpha1.CABundle{Secret: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}}
	for name, c := range map[string]struct {
		wanted       *v1alpha1.CABundle
		found        bool
		content      []byte
		reason, says string
		taken        bool
	}{
		"none is wanted":  {nil, false, nil, "", "", true},
		"no ConfigMap":    {configMap, false, nil, v1alpha1.ReasonConfigMapNotFound, "There is no ConfigMap company-ca", false},
		"no Secret":       {secret, false, nil, v1alpha1.ReasonSecretNotFound, "There is no Secret company-ca", false},
		"no such key":     {configMap, true, nil, v1alpha1.ReasonCertificateRefused, "nothing under the key ca.crt", false},
		"no certificate":  {configMap, true, []byte("x"), v1alpha1.ReasonCertificateRefused, "not a certificate in PEM", false},
		"a key beside it": {secret, true, append(good.pem(), good.keyPEM(t)...), v1alpha1.ReasonCertificateRefused, "not a certificate in PEM", false},
		"far too many":    {secret, true, bytes.Repeat(good.pem(), 500), v1alpha1.ReasonCertificateRefused, "larger than 128 KiB", false},
		"good":            {secret, true, good.pem(), v1alpha1.ReasonApplying, "of Secret company-ca", true},
	} {
		agents := map[string]*agentapi.Status{"shop-0": {ServerTLS: &agentapi.ServerTLSStatus{}}}
		for _, bundle := range []Bundle{Directories(c.wanted), Clients(c.wanted)} {
			bundle.Found, bundle.Content = c.found, c.content
			got, found := bundle.Decide([]byte("before"), agents, noon)
			want := map[bool]string{true: string(c.content), false: "before"}[c.taken]
			if string(got) != want || found.Reason != c.reason || !strings.Contains(found.Message, c.says) {
				t.Errorf("%s, %s: %q, %+v", name, bundle.field, got, found)
			}
		}
	}
}
func TestCAsOfClientsMustBeCAs(t *testing.T) {
	company := newCA(t, "company", nil)
	leaf, expired := sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "alice"}}, company), untilThen(t, noon.Add(-time.Hour))
	for says, content := range map[string][]byte{
		"has a certificate of CN=alice, which is not a CA": append(company.pem(), leaf.pem()...),
		"have expired; write CAs that are valid":           expired.pem(),
	} {
		clients := Clients(&v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}})
		clients.Found, clients.Content = true, content
		if got, found := clients.Decide([]byte("before"), nil, noon); string(got) != "before" || found.Reason != v1alpha1.ReasonCertificateRefused || !strings.Contains(found.Message, says) {
			t.Errorf("%s: %q, %+v", says, got, found)
		}
	}
	clients := Clients(&v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}})
	clients.Found, clients.Content = true, append(expired.pem(), company.pem()...)
	if _, found := clients.Decide(nil, nil, noon); found.Status != metav1.ConditionTrue {
		t.Errorf("a CA that has expired beside another one: %+v", found)
	}
}

func TestInstancesTellWhichCAsTheyTrust(t *testing.T) {
	company, none := newCA(t, "company", nil).pem(), &agentapi.ServerTLSStatus{}
	has := &agentapi.ServerTLSStatus{LDAP: agentapi.HashTLS(company), Clients: agentapi.HashTLS(company)}
	problem := &agentapi.ServerTLSStatus{ClientsProblem: "The CAs can't be used."}
	wanted := &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}}
	for name, c := range map[string]struct {
		bundle Bundle
		told   []*agentapi.ServerTLSStatus
		reason string
		says   string
	}{
		"all have directories'":      {Directories(wanted), []*agentapi.ServerTLSStatus{has, has}, v1alpha1.ReasonCurrent, "when they connect to LDAP directories."},
		"all have clients'":          {Clients(wanted), []*agentapi.ServerTLSStatus{has, has}, v1alpha1.ReasonCurrent, "accept client certificates of the CAs of ConfigMap company-ca."},
		"one has not":                {Clients(wanted), []*agentapi.ServerTLSStatus{has, none}, v1alpha1.ReasonApplying, "not yet accept client certificates of the CAs of ConfigMap company-ca: shop-1."},
		"one is of an older version": {Clients(wanted), []*agentapi.ServerTLSStatus{has, nil}, v1alpha1.ReasonApplying, ": shop-1."},
		"one can't use them":         {Clients(wanted), []*agentapi.ServerTLSStatus{problem, has}, v1alpha1.ReasonCertificateRefused, "Instance shop-0: The CAs can't be used."},
		"one still has them":         {Clients(nil), []*agentapi.ServerTLSStatus{has, none}, v1alpha1.ReasonApplying, "still accept client certificates of the previous CAs: shop-0."},
		"none has them any more":     {Clients(nil), []*agentapi.ServerTLSStatus{none, nil}, "", ""},
	} {
		c.bundle.Found, c.bundle.Content = true, company
		agents := map[string]*agentapi.Status{"shop-0": {ServerTLS: c.told[0]}, "shop-1": {ServerTLS: c.told[1]}}
		if _, found := c.bundle.Decide(nil, agents, noon); found.Reason != c.reason || !strings.HasSuffix(found.Message, c.says) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestWhatIsWrongIsSaidFirst(t *testing.T) {
	none, good, bad := condition.Finding{}, condition.True("Current", "Good."), condition.False("Bad", "Bad.")
	for name, c := range map[string]struct {
		found           []condition.Finding
		reason, message string
	}{
		"nothing":       {[]condition.Finding{none, none, none}, "", ""},
		"one":           {[]condition.Finding{none, good, none}, "Current", "Good."},
		"the other":     {[]condition.Finding{bad, none}, "Bad", "Bad."},
		"both are good": {[]condition.Finding{good, none, good}, "Current", "Good. Good."},
		"first is bad":  {[]condition.Finding{bad, good}, "Bad", "Bad."},
		"second is bad": {[]condition.Finding{good, bad, good}, "Bad", "Bad."},
		"two are bad":   {[]condition.Finding{bad, good, bad}, "Bad", "Bad. Bad."},
	} {
		if got := All(c.found...); got.Reason != c.reason || got.Message != c.message {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
