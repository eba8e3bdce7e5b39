// Package clientca makes CAs of a person's own count for certificates of clients, but not for those of Howdah's roles.
package clientca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

// Keep has a file with what Restrict makes of a bundle, and makes it again only when the bundle or Howdah's CAs have changed.
func Keep(file string, bundle, howdahs []byte, roles []string) ([]byte, error) {
	if len(bundle) == 0 {
		return nil, os.RemoveAll(file)
	}
	of := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", bundle, howdahs, roles))
	headline := fmt.Appendf(nil, "# made from %x\n", of)
	kept, err := os.ReadFile(file)
	if err == nil && bytes.HasPrefix(kept, headline) {
		return kept, nil
	}
	made, err := Restrict(bundle, howdahs, roles)
	if err != nil {
		return kept, err // what was good stays
	}
	made = append(headline, made...)
	return made, generation.WriteFile(file, made, 0o600)
}

// Restrict makes CAs, in PEM, that verify what those of a bundle do, except certificates whose subject is one of these roles and nothing else.
//
// PostgreSQL has one list of CAs for all roles, so a CA in it could issue itself a certificate of howdah_replication. Therefore, a CA of its own,
// whose name constraints exclude these subjects, signs the others again: they keep key, name and extensions. Its key is forgotten. It is for OpenSSL,
// which applies the constraints of a root, too. CAs in howdahs are left out, since their certificates would be restricted as well.
func Restrict(bundle, howdahs []byte, roles []string) ([]byte, error) {
	cas, err := parse(bundle)
	if err != nil {
		return nil, err
	}
	ours, err := parse(howdahs)
	if err != nil {
		return nil, fmt.Errorf("read Howdah's own CAs: %w", err)
	}
	cas = slices.DeleteFunc(cas, func(ca *x509.Certificate) bool {
		return slices.ContainsFunc(ours, func(own *x509.Certificate) bool {
			return bytes.Equal(own.RawSubjectPublicKeyInfo, ca.RawSubjectPublicKeyInfo)
		})
	})
	if len(cas) == 0 {
		return nil, nil
	}
	for _, ca := range cas {
		if slices.ContainsFunc(ours, func(own *x509.Certificate) bool { return mistaken(ca, own) }) {
			return nil, fmt.Errorf("%s has the name and the key identifier of Howdah's own CA, or no key identifier: have it issued under another name", ca.Subject)
		}
	}
	root, key, err := newRoot(cas, roles)
	if err != nil {
		return nil, err
	}
	all := inPEM(root.Raw)
	for _, ca := range cas {
		signed, err := signAgain(ca, root, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ca.Subject, err)
		}
		all = append(all, inPEM(signed)...)
	}
	return all, nil
}

// mistaken says that OpenSSL may take a CA for Howdah's: it chooses an issuer by name and key identifier, and refuses the certificate if the signature
// is another one's. Then none of Howdah's roles could log in.
func mistaken(ca, own *x509.Certificate) bool {
	return bytes.Equal(ca.RawSubject, own.RawSubject) && (len(ca.SubjectKeyId) == 0 || bytes.Equal(ca.SubjectKeyId, own.SubjectKeyId))
}

func parse(bundle []byte) (cas []*x509.Certificate, err error) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !ca.BasicConstraintsValid || !ca.IsCA {
			return nil, fmt.Errorf("%s is not a CA", ca.Subject)
		}
		cas = append(cas, ca)
	}
	if len(cas) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	return cas, nil
}

// newRoot is valid for as long as one of the CAs is.
func newRoot(cas []*x509.Certificate, roles []string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	constraints, err := exclude(roles)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "CAs of clients"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore:       slices.MinFunc(cas, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }).NotBefore,
		NotAfter:        slices.MaxFunc(cas, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter,
		ExtraExtensions: []pkix.Extension{constraints},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	root, err := x509.ParseCertificate(raw)
	return root, key, err
}

var (
	oidAuthorityKeyID  = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidNameConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}
	oidCommonName      = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// signAgain keeps everything of a CA but who has signed it.
func signAgain(ca, root *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	extensions := slices.DeleteFunc(slices.Clone(ca.Extensions), func(e pkix.Extension) bool { return e.Id.Equal(oidAuthorityKeyID) })
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		RawSubject: ca.RawSubject, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtraExtensions: extensions,
	}, root, ca.PublicKey, key)
}

// generalSubtree and nameConstraints are those of RFC 5280, section 4.2.1.10.
type generalSubtree struct{ Base asn1.RawValue }

type nameConstraints struct {
	Excluded []generalSubtree `asn1:"tag:1"`
}

// exclude the subjects that begin with the common name of one of these roles. OpenSSL compares names whatever the type of their strings and their case,
// except NumericString, which it takes as it is, with any content.
func exclude(roles []string) (pkix.Extension, error) {
	var subtrees []generalSubtree
	for _, role := range roles {
		for _, tag := range []int{asn1.TagUTF8String, asn1.TagNumericString} {
			name, err := asn1.Marshal(pkix.RDNSequence{{{Type: oidCommonName, Value: asn1.RawValue{Tag: tag, Bytes: []byte(role)}}}})
			if err != nil {
				return pkix.Extension{}, err
			}
			const directoryName = 4 // of GeneralName
			subtrees = append(subtrees, generalSubtree{asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: directoryName, IsCompound: true, Bytes: name}})
		}
	}
	value, err := asn1.Marshal(nameConstraints{subtrees})
	return pkix.Extension{Id: oidNameConstraints, Critical: true, Value: value}, err
}

func inPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
