// Package authority signs the certificates of a test, as the CA of a cluster does.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a CA.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes one that nobody else trusts.
func New(t testing.TB) *Authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{Certificate: template, key: newKey(t)}
	certificate, err := x509.ParseCertificate(a.sign(t, template, a.key))
	if err != nil {
		t.Fatal(err)
	}
	a.Certificate = certificate
	return a
}

// Issue makes a certificate of a client with that common name, and of a server with these names and addresses.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key := newKey(t)
	return tls.Certificate{Certificate: [][]byte{a.sign(t, template, key)}, PrivateKey: key}
}

// Fill writes what Issue makes, its key and the CA into a folder, under the names that they have in a pod.
func (a *Authority) Fill(t testing.TB, dir, name string, hosts ...string) {
	t.Helper()
	issued := a.Issue(t, name, hosts...)
	key, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"ca.crt":  {Type: "CERTIFICATE", Bytes: a.Certificate.Raw},
		"tls.crt": {Type: "CERTIFICATE", Bytes: issued.Certificate[0]},
		"tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate of the key that is good for an hour.
func (a *Authority) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
