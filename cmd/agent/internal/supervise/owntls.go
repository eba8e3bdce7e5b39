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
	"slices"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/clientca"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ownTLS is what RolesFile has of a person's own for TLS. It is comparable.
type ownTLS struct {
	certificate, key string // that the server is to show; empty: Howdah's
	servers          string // CAs that clients of servers trust beside Howdah's
	ldap             string // CAs of directories; empty: those of the image
	clients          string // CAs whose certificates clients may log in with, beside Howdah's
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
		ldap: string(all[agentapi.LDAPTrustKey]), clients: string(all[agentapi.ClientTrustKey]),
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
	told := &agentapi.ServerTLSStatus{Problem: problem}
	shown.CA = own.trustInClients(server.CA, to.TLSDir, told)
	if err := shown.Write(to.TLSDir); err != nil {
		return nil, err
	}
	roots := server.CA
	if !bytes.Equal(shown.Certificate, server.Certificate) {
		told.Certificate, roots = agentapi.HashTLS(shown.Certificate), []byte(own.servers)
	}
	told.Shown = agentapi.ValidityOf(shown.Certificate, roots, now)
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
	return told, errors.Join(err, writeFile(to.LDAPCAFile, []byte(own.ldap)), writeFile(to.LDAPConfFile, own.directories(images, to.LDAPCAFile)))
}

// chooseOver is what the server shows: a certificate of one's own while it is good, what it showed before if the new one can't be used, or else
// Howdah's. Replicas refuse a certificate that has expired, and one whose CA has.
func (o ownTLS) chooseOver(howdahs settings.TLSFiles, dir string, now time.Time) (shown settings.TLSFiles, problem string) {
	shown = howdahs
	if o.certificate == "" {
		return shown, ""
	}
	if o.invalid {
		return shown, "The certificate of spec.tls.serverSecret, or a CA that it leads to, is not valid now: renew them, or check the clock of the node."
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

// trustInClients are the CAs by which the server verifies certificates of clients. Those of a person's own get no role of Howdah.
func (o ownTLS) trustInClients(howdahs []byte, dir string, told *agentapi.ServerTLSStatus) []byte {
	restricted, err := clientca.Keep(filepath.Join(filepath.Dir(dir), "client-ca.crt"), []byte(o.clients), howdahs, postgres.CertificateRoles())
	switch {
	case err != nil:
		told.ClientsProblem = fmt.Sprintf("The CAs of spec.tls.clientCABundle can't be used: %v.", err)
	case o.clients != "":
		told.Clients = agentapi.HashTLS([]byte(o.clients))
	}
	return bundle(howdahs, string(restricted))
}

// ldapFiles are what an image may have for LDAP clients.
type ldapFiles struct {
	conf []string // of libldap
	cas  []string // that everybody trusts
}

// images have these files: Debian's, Red Hat's and Alpine's.
var images = ldapFiles{
	conf: []string{"/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"},
	cas:  []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"},
}

// directories is the configuration of LDAP clients in the server. They trust the CAs of a person's own, which are in this file; else what the
// image's own configuration says; else those that everybody trusts, if the image has some. It is read again whenever a client logs in.
func (o ownTLS) directories(image ldapFiles, file string) []byte {
	if o.ldap != "" {
		return []byte("TLS_CACERT " + file + "\n")
	}
	if slices.ContainsFunc(image.conf, namesCAs) {
		return nil
	}
	for _, file := range image.cas {
		if _, err := os.Stat(file); err == nil {
			return []byte("TLS_CACERT " + file + "\n")
		}
	}
	return nil
}

// namesCAs says whether an ldap.conf says which CAs are trusted.
func namesCAs(conf string) bool {
	content, err := os.ReadFile(conf)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if words := strings.Fields(line); len(words) > 1 && (strings.EqualFold(words[0], "TLS_CACERT") || strings.EqualFold(words[0], "TLS_CACERTDIR")) {
			return true
		}
	}
	return false
}

// bundle of certificates in PEM.
func bundle(first []byte, more string) []byte {
	if more == "" {
		return first
	}
	return append(append(bytes.TrimRight(first, "\n"), '\n'), more...)
}

func (p Paths) serverTLSDir() string { return filepath.Join(p.RunDir, serverTLS) }

// serverTLS is the folder below RunDir with what the server reads.
const serverTLS = "tls"
