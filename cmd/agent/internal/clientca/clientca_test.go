package clientca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/test/testkit/authority"
)

func pemOf(certificates ...*x509.Certificate) (all []byte) {
	for _, c := range certificates {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return all
}

func TestTheSignerOfCAsIsTheOnlyRoot(t *testing.T) {
	howdah, company, other := authority.New(t), authority.New(t), authority.New(t)
	leaf, err := x509.ParseCertificate(company.Issue(t, "alice").Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	made, err := Restrict(pemOf(other.Certificate, company.Certificate, howdah.Certificate), pemOf(howdah.Certificate), []string{"howdah_backup"})
	if err != nil {
		t.Fatal(err)
	}
	cas, err := parse(made)
	if err != nil || len(cas) != 3 {
		t.Fatalf("a root and two CAs are wanted, without Howdah's: %d, %v", len(cas), err)
	}
	root := cas[0]
	for _, ca := range cas[1:] {
		if err := ca.CheckSignatureFrom(root); err != nil {
			t.Errorf("%s is not signed by the root: %v", ca.Subject, err)
		}
	}
	if err := leaf.CheckSignatureFrom(cas[2]); err != nil || !bytes.Equal(cas[2].RawSubject, company.Certificate.RawSubject) || !bytes.Equal(cas[2].SubjectKeyId, company.Certificate.SubjectKeyId) {
		t.Errorf("the CA that was signed again verifies nothing: %v", err)
	}
	if cas[2].NotAfter != company.Certificate.NotAfter || root.NotAfter.Before(cas[2].NotAfter) {
		t.Errorf("until %s, and the root until %s", cas[2].NotAfter, root.NotAfter)
	}
}

func TestABundleWithoutOthersCAsTrustsNobody(t *testing.T) {
	howdah := authority.New(t)
	if made, err := Restrict(pemOf(howdah.Certificate), pemOf(howdah.Certificate), []string{"howdah_backup"}); err != nil || made != nil {
		t.Errorf("%s, %v", made, err)
	}
	leaf, err := x509.ParseCertificate(howdah.Issue(t, "alice").Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for says, bundle := range map[string][]byte{"is not a CA": pemOf(leaf), "no certificate": []byte("x"), "malformed": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})} {
		if _, err := Restrict(bundle, pemOf(howdah.Certificate), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestACAThatOpenSSLWouldTakeForHowdahsIsRefused(t *testing.T) {
	howdah := authority.New(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, keyID := range map[string][]byte{"the same key ID": howdah.Certificate.SubjectKeyId, "another key ID": {1, 2, 3}} {
		template := &x509.Certificate{
			RawSubject: howdah.Certificate.RawSubject, SubjectKeyId: keyID, IsCA: true, BasicConstraintsValid: true,
			NotBefore: howdah.Certificate.NotBefore, NotAfter: howdah.Certificate.NotAfter,
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		forged := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
		if _, err := Restrict(forged, pemOf(howdah.Certificate), []string{"howdah_backup"}); (err != nil) != (name == "the same key ID") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCAsAreSignedAgainOnlyWhenTheyChange(t *testing.T) {
	howdah, company, file := authority.New(t), authority.New(t), filepath.Join(t.TempDir(), "client-ca.crt")
	roles, ours := []string{"howdah_backup"}, pemOf(howdah.Certificate)
	keep := func(bundle []byte) string {
		t.Helper()
		kept, err := Keep(file, bundle, ours, roles)
		if err != nil {
			t.Fatal(err)
		}
		return string(kept)
	}
	first := keep(pemOf(company.Certificate))
	if again := keep(pemOf(company.Certificate)); again != first || first == "" {
		t.Error("the server would load other CAs each time the agent looks")
	}
	if kept, err := Keep(file, []byte("x"), ours, roles); err == nil || string(kept) != first {
		t.Errorf("a bad bundle takes away what was good: %q, %v", kept, err)
	}
	if other := keep(pemOf(authority.New(t).Certificate)); other == first {
		t.Error("another bundle changes nothing")
	}
	if none := keep(nil); none != "" {
		t.Errorf("without a bundle, CAs are left: %s", none)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}
