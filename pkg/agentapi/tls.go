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
	// ClientTrustKey has the CAs whose certificates clients may log in with, beside those of Howdah's.
	ClientTrustKey = "/client-ca.crt"
)

// HashTLS is by which an agent tells which certificates it has.
func HashTLS(pem []byte) string {
	sum := sha256.Sum256(pem)
	return hex.EncodeToString(sum[:])
}

// Validity is how long something is valid.
type Validity struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// EndsSoon says whether little is left, both of the time and of the whole: what is issued for a day is renewed hours before its end.
func (v Validity) EndsSoon(now time.Time) bool {
	const days, share = 14, 5
	left := v.Until.Sub(now)
	return !v.Until.IsZero() && left <= days*24*time.Hour && (v.From.IsZero() || left <= v.Until.Sub(v.From)/share)
}

// ValidityOf a server's certificate for clients that trust these roots, both in PEM: that of what expires first, of it and the CAs above it. One that
// they don't accept now counts by itself. It is zero for what is no certificate.
func ValidityOf(certificate, roots []byte, now time.Time) (longest Validity) {
	leaf, chains, err := chainsOf(certificate, roots, now)
	if leaf == nil {
		return longest
	}
	if err != nil {
		return Validity{leaf.NotBefore, leaf.NotAfter}
	}
	for _, chain := range chains {
		if first := firstToEnd(chain); first.NotAfter.After(longest.Until) {
			longest = Validity{first.NotBefore, first.NotAfter}
		}
	}
	return longest
}

// ValidUntil is how long clients that trust these roots accept a server's certificate, both in PEM: until it or a CA above it expires. The error
// says why they don't accept it now.
func ValidUntil(certificate, roots []byte, now time.Time) (until time.Time, err error) {
	if _, _, err := chainsOf(certificate, roots, now); err != nil {
		return until, err
	}
	return ValidityOf(certificate, roots, now).Until, nil
}

// chainsOf a certificate, which comes first, to these roots. The intermediate CAs follow it.
func chainsOf(certificate, roots []byte, now time.Time) (leaf *x509.Certificate, chains [][]*x509.Certificate, err error) {
	trusted, intermediates := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(roots)
	block, below := pem.Decode(certificate)
	if block == nil {
		return nil, nil, errors.New("there is no certificate in PEM")
	}
	if leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, nil, err
	}
	intermediates.AppendCertsFromPEM(below)
	chains, err = leaf.Verify(x509.VerifyOptions{Roots: trusted, Intermediates: intermediates, CurrentTime: now})
	return leaf, chains, err
}

// EndOf a chain is when its first certificate expires.
func EndOf(chain []*x509.Certificate) time.Time { return firstToEnd(chain).NotAfter }

func firstToEnd(chain []*x509.Certificate) *x509.Certificate {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// ServerTLSStatus is what of a person's own an instance has for TLS.
type ServerTLSStatus struct {
	// Certificate that the server shows, by its hash; empty: it shows Howdah's.
	Certificate string `json:"certificate,omitempty"`
	// Trust is the hash of the CAs that the instance trusts in other servers; empty: only Howdah's.
	Trust string `json:"trust,omitempty"`
	// LDAP is the hash of the CAs that are trusted in directories; empty: those of the image.
	LDAP string `json:"ldap,omitempty"`
	// Clients is the hash of the CAs whose certificates clients may log in with; empty: only Howdah's.
	Clients string `json:"clients,omitempty"`
	// ClientsProblem says in a sentence why such CAs can't be used.
	ClientsProblem string `json:"clientsProblem,omitempty"`
	// Shown is how long clients accept the certificate that the server shows, be it Howdah's or not.
	Shown Validity `json:"shown,omitzero"`
	// Problem says in a sentence why a certificate is not shown.
	Problem string `json:"problem,omitempty"`
}
