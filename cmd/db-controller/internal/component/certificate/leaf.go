package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"time"
)

// Request says what a certificate is for.
type Request struct {
	// CommonName is the role that a client certificate stands for, or a name for people.
	CommonName string
	// DNSNames make it a server's certificate; without any it is a client's.
	DNSNames []string
	// Both makes it a client's, too, where it has names.
	Both bool
}

func (r Request) usage() []x509.ExtKeyUsage {
	switch {
	case len(r.DNSNames) > 0 && r.Both:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case len(r.DNSNames) > 0:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// Issue creates a certificate.
func (a *Authority) Issue(request Request, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("create key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: request.CommonName}, DNSNames: request.DNSNames,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(LeafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: request.usage(), BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate of %s: %w", request.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encodeCertificate(der), Key: keyPEM}, nil
}

// Check says why a certificate has to be renewed (ErrUnfit), or nil.
func (a *Authority) Check(pair Pair, request Request, now time.Time) error {
	certificates := parseCertificates(pair.Certificate)
	if len(certificates) == 0 {
		return fmt.Errorf("%w: there is none", ErrUnfit)
	}
	leaf := certificates[0]
	signer, err := parseKey(pair.Key)
	if err != nil {
		return err
	}
	switch {
	case !sameKey(leaf.PublicKey, signer.Public()):
		return fmt.Errorf("%w: its key is another's", ErrUnfit)
	case leaf.Subject.CommonName != request.CommonName || !slices.Equal(leaf.DNSNames, request.DNSNames):
		return fmt.Errorf("%w: it is for other names", ErrUnfit)
	case due(leaf, now):
		return fmt.Errorf("%w: it ends on %s", ErrUnfit, leaf.NotAfter.Format(time.DateOnly))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle)
	for _, usage := range request.usage() { // one of several is enough for Verify
		if _, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return fmt.Errorf("%w: %w", ErrUnfit, err)
		}
	}
	return nil
}
