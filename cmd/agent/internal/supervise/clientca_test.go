//go:build postgres

package supervise

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
)

// clientsCA is a CA of a company, which would sign anything.
type clientsCA struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newClientsCA is signed by another one, or by itself.
func newClientsCA(t *testing.T, name string, above *clientsCA) *clientsCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &clientsCA{t: t, key: key, certificate: &x509.Certificate{
		RawSubject: subject(t, commonName(asn1.TagUTF8String, name)), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	if above == nil {
		above = ca
	}
	if ca.certificate, err = x509.ParseCertificate(above.sign(ca.certificate, key)); err != nil {
		t.Fatal(err)
	}
	return ca
}

func (c *clientsCA) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	c.t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, c.certificate, key.Public(), c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

func (c *clientsCA) pem() []byte { return inPEM(c.certificate.Raw) }

// client is a folder with a certificate of this subject, and those above it.
func (c *clientsCA) client(subject []byte, above ...*clientsCA) string {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	chain := inPEM(c.sign(&x509.Certificate{RawSubject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key))
	for _, ca := range above {
		chain = append(chain, ca.pem()...)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": chain, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

func inPEM(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

func commonName(tag int, name string) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: asn1.RawValue{Tag: tag, Bytes: []byte(name)}}
}

// subject of several parts, one after the other.
func subject(t *testing.T, parts ...pkix.AttributeTypeAndValue) []byte {
	t.Helper()
	var sequence pkix.RDNSequence
	for _, part := range parts {
		sequence = append(sequence, pkix.RelativeDistinguishedNameSET{part})
	}
	raw, err := asn1.Marshal(sequence)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestClientsLogInWithCertificatesOfACompanysCA as roles whose rules say so, and as none of Howdah's, whatever the company's CA signs. It comes and goes
// without a restart.
func TestClientsLogInWithCertificatesOfACompanysCA(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	p.brings(agentapi.Passwords{})
	config := p.config
	config.Declared = &agentapi.Declared{Roles: []agentapi.Role{{Name: "alice", Login: true, ConnectionLimit: -1}}}
	config.HBA = []string{"hostssl shop alice all cert"}
	p.run()
	pid := p.pid()
	p.configure(config)
	p.awaitStatus("apply the rules", func(s agentapi.Status) bool {
		return s.ConfigHash == config.Hash() && s.Declared != nil && s.Declared.Hash == config.Declared.Hash()
	})
	company := newClientsCA(t, "company", nil)
	issuing := newClientsCA(t, "issuing", company)
	impostor := newClientsCA(t, "ca", company) // as Howdah's CA is called
	login := func(role, database, client string) (string, error) {
		return p.psql(fmt.Sprintf("host=localhost port=%d user=%s dbname=%s sslmode=verify-full sslrootcert=%s sslcert=%s/tls.crt sslkey=%s/tls.key",
			p.Port, role, database, filepath.Join(p.TLSDir, "ca.crt"), client, client))
	}
	comesIn := func(role, database, client string) bool {
		_, err := login(role, database, client)
		return err == nil
	}
	howdahs := func(role string) string {
		dir := t.TempDir()
		p.ca.Fill(t, dir, role)
		return dir
	}
	alice := issuing.client(subject(t, commonName(asn1.TagUTF8String, "alice")), issuing)
	if comesIn("alice", "shop", alice) {
		t.Error("alice came in before the server knows the company's CA")
	}

	bundle := company.pem()
	p.brings(agentapi.Passwords{agentapi.ClientTrustKey: bundle})
	p.awaitStatus("take the CA", func(s agentapi.Status) bool { return s.ServerTLS.Clients == agentapi.HashTLS(bundle) })
	p.await("let alice in", func() bool { return comesIn("alice", "shop", alice) })
	if whole := issuing.client(subject(t, commonName(asn1.TagUTF8String, "alice")), issuing, company); !comesIn("alice", "shop", whole) {
		t.Error("alice didn't come in with the whole chain")
	}
	if !comesIn("alice", "shop", howdahs("alice")) {
		t.Error("alice didn't come in with a certificate of Howdah's")
	}
	if comesIn("app", "shop", alice) {
		t.Error("alice came in as another role")
	}
	forged := func(ca *clientsCA, above ...*clientsCA) {
		t.Helper()
		organization := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "company"}
		role := postgres.RoleBackup
		for what, name := range map[string][]byte{
			"its name":                    subject(t, commonName(asn1.TagUTF8String, role)),
			"its name, as printable":      subject(t, commonName(asn1.TagPrintableString, role)),
			"its name, as numeric":        subject(t, commonName(asn1.TagNumericString, role)),
			"its name, as T61":            subject(t, commonName(20, role)),
			"its name, as IA5":            subject(t, commonName(asn1.TagIA5String, role)),
			"its name, in capitals":       subject(t, commonName(asn1.TagUTF8String, strings.ToUpper(role))),
			"its name after another":      subject(t, organization, commonName(asn1.TagUTF8String, role)),
			"its name before another":     subject(t, commonName(asn1.TagUTF8String, role), organization),
			"its name and another one":    subject(t, commonName(asn1.TagUTF8String, role), commonName(asn1.TagUTF8String, "alice")),
			"another one, then its name":  subject(t, commonName(asn1.TagUTF8String, "alice"), commonName(asn1.TagUTF8String, role)),
			"a name that looks like both": subject(t, commonName(asn1.TagUTF8String, role+",O=company")),
		} {
			if out, err := login(role, "postgres", ca.client(name, above...)); err == nil {
				t.Errorf("%s came in with a certificate of %s for %s: %s", role, ca.certificate.Subject, what, out)
			}
		}
	}
	forged(company)
	forged(issuing, issuing)
	forged(issuing, issuing, company)
	forged(impostor, impostor)
	for _, role := range postgres.CertificateRoles() {
		out, err := login(role, "postgres", company.client(subject(t, commonName(asn1.TagUTF8String, role))))
		if err == nil || strings.Contains(out, "certificate authentication failed") && strings.Contains(out, "does not exist") {
			t.Errorf("%s: %s", role, out)
		}
	}
	for _, role := range []string{postgres.RoleBackup, postgres.RoleUpgrade, postgres.RoleReplication} {
		if out, err := login(role, "postgres", howdahs(role)); err != nil {
			t.Errorf("%s didn't come in with its own certificate: %s", role, out)
		}
	}

	// Howdah's own CA in the bundle takes nothing away from Howdah's roles, and a bad bundle nothing from clients.
	both := append(pemOf(p.ca), bundle...)
	p.brings(agentapi.Passwords{agentapi.ClientTrustKey: both})
	p.awaitStatus("take both", func(s agentapi.Status) bool { return s.ServerTLS.Clients == agentapi.HashTLS(both) })
	p.await("let both in", func() bool {
		return comesIn("alice", "shop", alice) && comesIn(postgres.RoleBackup, "postgres", howdahs(postgres.RoleBackup))
	})
	p.brings(agentapi.Passwords{agentapi.ClientTrustKey: []byte("none")})
	p.awaitStatus("refuse it", func(s agentapi.Status) bool { return s.ServerTLS.ClientsProblem != "" })
	if !comesIn("alice", "shop", alice) {
		t.Error("a bad bundle shuts alice out")
	}
	other := pemOf(authority.New(t))
	p.brings(agentapi.Passwords{agentapi.ClientTrustKey: other})
	p.awaitStatus("take another CA", func(s agentapi.Status) bool { return s.ServerTLS.Clients == agentapi.HashTLS(other) })
	p.await("shut alice out", func() bool { return !comesIn("alice", "shop", alice) })
	p.brings(agentapi.Passwords{agentapi.ClientTrustKey: bundle})
	p.await("let alice in again", func() bool { return comesIn("alice", "shop", alice) })
	p.brings(agentapi.Passwords{})
	p.awaitStatus("drop the CAs", func(s agentapi.Status) bool { return s.ServerTLS.Clients == "" && s.ServerTLS.ClientsProblem == "" })
	p.await("shut alice out", func() bool { return !comesIn("alice", "shop", alice) })
	if !comesIn("alice", "shop", howdahs("alice")) || p.pid() != pid {
		t.Error("alice didn't come in with a certificate of Howdah's, or the server restarted")
	}
}
