package agentapi

import (
	"crypto/sha256"
	"encoding/hex"
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
