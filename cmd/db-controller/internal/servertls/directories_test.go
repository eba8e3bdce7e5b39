package servertls

import (
	"bytes"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestTheLastGoodCAsOfDirectoriesStayWhenTheNewOnesCantBeUsed(t *testing.T) {
	good := newCA(t, "company", nil)
	configMap := &v1alpha1.CABundle{ConfigMap: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}}
	secret := &v1alpha1.CABundle{Secret: &v1alpha1.BundleKey{Name: "company-ca", Key: "ca.crt"}}
	for name, c := range map[string]struct {
		directories  Directories
		reason, says string
		taken        bool
	}{
		"none is wanted":  {Directories{}, "", "", true},
		"no ConfigMap":    {Directories{Wanted: configMap}, v1alpha1.ReasonConfigMapNotFound, "There is no ConfigMap company-ca", false},
		"no Secret":       {Directories{Wanted: secret}, v1alpha1.ReasonSecretNotFound, "There is no Secret company-ca", false},
		"no such key":     {Directories{Wanted: configMap, Found: true}, v1alpha1.ReasonCertificateRefused, "nothing under the key ca.crt", false},
		"no certificate":  {Directories{Wanted: configMap, Found: true, Content: []byte("x")}, v1alpha1.ReasonCertificateRefused, "not a certificate in PEM", false},
		"a key beside it": {Directories{Wanted: secret, Found: true, Content: append(good.pem(), good.keyPEM(t)...)}, v1alpha1.ReasonCertificateRefused, "not a certificate in PEM", false},
		"far too many":    {Directories{Wanted: secret, Found: true, Content: bytes.Repeat(good.pem(), 500)}, v1alpha1.ReasonCertificateRefused, "larger than 128 KiB", false},
		"good":            {Directories{Wanted: secret, Found: true, Content: good.pem()}, v1alpha1.ReasonApplying, "yet to trust the CAs of Secret company-ca in directories: shop-0.", true},
	} {
		agents := map[string]*agentapi.Status{"shop-0": {ServerTLS: &agentapi.ServerTLSStatus{}}}
		got, found := c.directories.Decide([]byte("before"), agents)
		if want := map[bool]string{true: string(c.directories.Content), false: "before"}[c.taken]; string(got) != want || found.Reason != c.reason || !strings.Contains(found.Message, c.says) {
			t.Errorf("%s: %q, %+v", name, got, found)
		}
	}
	all := Directories{Wanted: secret, Found: true, Content: good.pem()}
	if _, found := all.Decide(nil, map[string]*agentapi.Status{"shop-0": {ServerTLS: &agentapi.ServerTLSStatus{LDAP: agentapi.HashTLS(good.pem())}}}); found.Status != "True" {
		t.Errorf("all have it: %+v", found)
	}
}

func TestWhatIsWrongIsSaidFirst(t *testing.T) {
	none, good, bad := condition.Finding{}, condition.True("Current", "Good."), condition.False("Bad", "Bad.")
	for name, c := range map[string]struct {
		server, directories condition.Finding
		reason, message     string
	}{
		"nothing":       {none, none, "", ""},
		"one":           {none, good, "Current", "Good."},
		"the other":     {bad, none, "Bad", "Bad."},
		"first is bad":  {bad, good, "Bad", "Bad."},
		"second is bad": {good, bad, "Bad", "Bad."},
		"both":          {bad, bad, "Bad", "Bad. Bad."},
	} {
		if got := Both(c.server, c.directories); got.Reason != c.reason || got.Message != c.message {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
