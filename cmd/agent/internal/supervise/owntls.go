package supervise

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// ownTLS is what RolesFile has of a person's own for TLS. It is comparable.
type ownTLS struct {
	certificate, key string // that the server is to show; empty: Howdah's
	servers          string // CAs that clients of servers trust beside Howdah's
	ldap             string // CAs of directories; empty: those of the image
	invalid          bool   // the certificate, or a CA above it, has expired, or is not valid yet
}

// readOwnTLS reads what is there now. The file comes with the pod, so there is nothing to wait for.
func (p Paths) readOwnTLS(now time.Time) (ownTLS, error) {
	content, err := os.ReadFile(p.RolesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return ownTLS{}, nil
	}
	if err != nil {
		return ownTLS{}, err
	}
	all := agentapi.Passwords{}
	if err := json.Unmarshal(content, &all); err != nil {
		return ownTLS{}, fmt.Errorf("the certificate in %s can't be read", p.RolesFile) // the error may quote passwords
	}
	own := ownTLS{
		certificate: string(all[agentapi.ServerCertificateKey]), key: string(all[agentapi.ServerPrivateKey]), servers: string(all[agentapi.ServerTrustKey]),
		ldap: string(all[agentapi.LDAPTrustKey]),
	}
	if _, err := tls.X509KeyPair([]byte(own.certificate), []byte(own.key)); err == nil {
		_, err = agentapi.ValidUntil([]byte(own.certificate), []byte(own.servers), now)
		own.invalid = err != nil
	}
	return own, nil
}

// copyCertificates puts the TLS files where PostgreSQL may read them, and says what of them is a person's own.
func copyCertificates(from Paths, to settings.Paths, now time.Time) (*agentapi.ServerTLSStatus, error) {
	server, err := settings.ReadTLS(from.TLSDir)
	if err != nil {
		return nil, err
	}
	own, err := from.readOwnTLS(now)
	if err != nil {
		return nil, err
	}
	shown, problem := own.chooseOver(server, to.TLSDir, now)
	if err := shown.Write(to.TLSDir); err != nil {
		return nil, err
	}
	told := &agentapi.ServerTLSStatus{Problem: problem}
	if !bytes.Equal(shown.Certificate, server.Certificate) {
		told.Certificate = agentapi.HashTLS(shown.Certificate)
	}
	peer, err := settings.ReadTLS(from.PeerTLSDir)
	if err == nil {
		peer.CA = bundle(peer.CA, own.servers)
		err = peer.Write(to.PeerTLSDir)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // a cluster of one
	}
	if own.servers != "" {
		told.Trust = agentapi.HashTLS([]byte(own.servers))
	}
	if own.ldap != "" {
		told.LDAP = agentapi.HashTLS([]byte(own.ldap))
	}
	return told, errors.Join(err, writeFile(to.LDAPCAFile, own.directories()))
}

// chooseOver is what the server shows: a certificate of one's own while it is good, what it showed before if the new one can't be used, or else
// Howdah's. Replicas refuse a certificate that has expired, and one whose CA has.
func (o ownTLS) chooseOver(howdahs settings.TLSFiles, dir string, now time.Time) (shown settings.TLSFiles, problem string) {
	shown = howdahs
	if o.certificate == "" {
		return shown, ""
	}
	if o.invalid {
		return shown, "The certificate of spec.tls.serverSecret, or a CA that it leads to, is not valid now: renew them, or look at the clock of the node."
	}
	if _, err := tls.X509KeyPair([]byte(o.certificate), []byte(o.key)); err != nil {
		problem = fmt.Sprintf("The certificate of spec.tls.serverSecret can't be used: %v.", err)
		before, err := settings.ReadTLS(dir)
		if err != nil {
			return shown, problem
		}
		if pair, err := tls.X509KeyPair(before.Certificate, before.Key); err == nil && now.Before(pair.Leaf.NotAfter) {
			shown.Certificate, shown.Key = before.Certificate, before.Key
		}
		return shown, problem
	}
	shown.Certificate, shown.Key = []byte(o.certificate), []byte(o.key)
	return shown, ""
}

// systemCAs are where images have the CAs that everybody trusts: Debian's, Red Hat's and Alpine's.
var systemCAs = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// directories is what LDAP clients in the server trust: CAs of a person's own, or those of the image, if it has some.
func (o ownTLS) directories() []byte {
	if o.ldap != "" {
		return []byte(o.ldap)
	}
	for _, file := range systemCAs {
		if content, err := os.ReadFile(file); err == nil {
			return content
		}
	}
	return nil
}

// bundle of certificates in PEM.
func bundle(first []byte, more string) []byte {
	if more == "" {
		return first
	}
	return append(append(bytes.TrimRight(first, "\n"), '\n'), more...)
}

// shownCertificate is the file that the server shows.
func (p Paths) shownCertificate() string { return filepath.Join(p.serverTLSDir(), settings.CertFile) }

func (p Paths) serverTLSDir() string { return filepath.Join(p.RunDir, serverTLS) }

// serverTLS is the folder below RunDir with what the server reads.
const serverTLS = "tls"

// ShownCertificate is the file that the server of a pod shows.
func ShownCertificate() string { return DefaultPaths().shownCertificate() }
