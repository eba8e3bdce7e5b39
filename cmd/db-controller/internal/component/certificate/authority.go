// Package certificate issues and checks the certificates of one cluster: a CA of its own, and what it signs. It knows
// PEM and time, and no Kubernetes.
package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// How long certificates live. Each is renewed when two thirds of its life are over.
const (
	AuthorityLife = 10 * 365 * 24 * time.Hour
	LeafLife      = 90 * 24 * time.Hour
	// backdate forgives clocks that are slow.
	backdate = 10 * time.Minute
)

// ErrUnfit is a certificate that has to be renewed; the error says why.
var ErrUnfit = errors.New("certificate is not fit")

// Pair is a certificate and its key, in PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Authority signs. Its Bundle begins with its own certificate; previous ones follow while they are still good, so
// that what they signed is still trusted.
type Authority struct {
	Bundle []byte
	Key    []byte
	// Servers are CAs of a person's own that may have signed what servers show, in PEM. Nobody is let in by them.
	Servers []byte

	certificate *x509.Certificate
	signer      crypto.Signer
}

// NewAuthority creates a CA. The previous certificates that are still good go into its bundle.
func NewAuthority(commonName string, before []byte, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonName},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(AuthorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign CA: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	bundle := encodeCertificate(der)
	for _, old := range parseCertificates(before) {
		if now.Before(old.NotAfter) {
			bundle = append(bundle, encodeCertificate(old.Raw)...)
		}
	}
	return ParseAuthority(bundle, keyPEM)
}

// ParseAuthority reads what NewAuthority created.
func ParseAuthority(bundle, key []byte) (*Authority, error) {
	certificates := parseCertificates(bundle)
	if len(certificates) == 0 {
		return nil, fmt.Errorf("%w: no certificate in the bundle of the CA", ErrUnfit)
	}
	signer, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	if !sameKey(certificates[0].PublicKey, signer.Public()) {
		return nil, fmt.Errorf("%w: the key of the CA is not that of its certificate", ErrUnfit)
	}
	return &Authority{Bundle: bundle, Key: key, certificate: certificates[0], signer: signer}, nil
}

// ForClients is what clients of the servers trust.
func (a *Authority) ForClients() []byte { return slices.Concat(a.Bundle, a.Servers) }

// Due says whether the CA has to be renewed.
func (a *Authority) Due(now time.Time) bool { return due(a.certificate, now) }

// due is when two thirds of a life are over.
func due(c *x509.Certificate, now time.Time) bool {
	life := c.NotAfter.Sub(c.NotBefore)
	return !now.Before(c.NotBefore.Add(life / 3 * 2))
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("create serial number: %w", err)
	}
	return serial, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseCertificates skips what it can't read: what is missing then is issued again.
func parseCertificates(data []byte) []*x509.Certificate {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, c)
		}
	}
	return certificates
}

func parseKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%w: no key", ErrUnfit)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: the key can't be read", ErrUnfit)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: the key can't sign", ErrUnfit)
	}
	return signer, nil
}

func sameKey(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}
