package agentapi

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"slices"
	"time"
)

// What stands in RolesFile for TLS, of a person's own and in PEM: the certificate and the key that the server shows in place of Howdah's, and the
// CAs that clients of the servers trust beside Howdah's. No role has such names.
const (
	ServerCertificateKey = "/server.crt"
	ServerPrivateKey     = "/server.key"
	ServerTrustKey       = "/server-ca.crt"
	// LDAPTrustKey has the CAs of the directories that rules of pg_hba.conf name, and nobody else's.
	LDAPTrustKey = "/ldap-ca.crt"
)

// HashTLS is by which an agent tells which certificates it has.
func HashTLS(pem []byte) string {
	sum := sha256.Sum256(pem)
	return hex.EncodeToString(sum[:])
}

// ValidUntil is how long clients that trust these roots accept a server's certificate, both in PEM: until it or a CA above it expires. The error
// says why they don't accept it now.
func ValidUntil(certificate, roots []byte, now time.Time) (until time.Time, err error) {
	trusted, intermediates := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(roots)
	block, below := pem.Decode(certificate)
	if block == nil {
		return until, errors.New("there is no certificate in PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return until, err
	}
	intermediates.AppendCertsFromPEM(below)
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: trusted, Intermediates: intermediates, CurrentTime: now})
	for _, chain := range chains {
		if end := EndOf(chain); end.After(until) {
			until = end
		}
	}
	return until, err
}

// EndOf a chain is when its first certificate expires.
func EndOf(chain []*x509.Certificate) time.Time {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// ServerTLSStatus is what of a person's own an instance has for TLS.
type ServerTLSStatus struct {
	// Certificate that the server shows, by its hash; empty: it shows Howdah's.
	Certificate string `json:"certificate,omitempty"`
	// Trust is the hash of the CAs that the instance trusts in other servers; empty: only Howdah's.
	Trust string `json:"trust,omitempty"`
	// LDAP is the hash of the CAs that are trusted in directories; empty: those of the image.
	LDAP string `json:"ldap,omitempty"`
	// Problem says in a sentence why a certificate is not shown.
	Problem string `json:"problem,omitempty"`
}
