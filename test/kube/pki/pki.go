// Package pki makes the certificates of a test cluster: one authority, and a certificate for each identity.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of everything: a test cluster never gets that old. Clocks of a paused machine may lag, hence the start
// in the past.
const (
	lifetime = 10 * 365 * 24 * time.Hour
	lag      = time.Hour
)

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	PEM         []byte
	KeyPEM      []byte
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// Identity is who a certificate stands for.
type Identity struct {
	CommonName   string
	Organization string   // the Kubernetes group, or empty
	Names        []string // DNS names and IP addresses that a server answers to
}

// NewAuthority makes a self-signed authority.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-lag),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return parse(pair)
}

// LoadAuthority reads what Save wrote.
func LoadAuthority(folder string) (*Authority, error) {
	certificate, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(folder, "ca.key"))
	if err != nil {
		return nil, err
	}
	return parse(Pair{certificate, key})
}

// Save writes ca.crt and ca.key into a folder.
func (a *Authority) Save(folder string) error { return Pair{a.PEM, a.KeyPEM}.Save(folder, "ca") }

// Issue makes a certificate for use as a client and as a server.
func (a *Authority) Issue(identity Identity, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: identity.CommonName},
		NotBefore:             now.Add(-lag),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if identity.Organization != "" {
		template.Subject.Organization = []string{identity.Organization}
	}
	for _, name := range identity.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, a.certificate, key, a.key)
}

// NewKey makes a key pair without a certificate, for signing service account tokens.
func NewKey() (public, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	private, err = encodeKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), private, err
}

// Save writes name.crt and name.key into a folder.
func (p Pair) Save(folder, name string) error {
	if err := os.WriteFile(filepath.Join(folder, name+".crt"), p.Certificate, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), p.Key, 0o600)
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return Pair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: keyPEM}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parse(pair Pair) (*Authority, error) {
	certificateBlock, _ := pem.Decode(pair.Certificate)
	keyBlock, _ := pem.Decode(pair.Key)
	if certificateBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("authority: not PEM")
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return &Authority{certificate: certificate, key: key, PEM: pair.Certificate, KeyPEM: pair.Key}, nil
}
