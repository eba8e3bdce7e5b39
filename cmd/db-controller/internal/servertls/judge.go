package servertls

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// candidate is a certificate that servers could show.
type candidate struct {
	pair  certificate.Pair
	root  []byte    // that it leads to, in PEM
	until time.Time // when the first of both, and of what is between them, expires
}

// refusal says why there is no candidate, and what to do.
type refusal struct{ reason, message string }

// judge what a person has in a Secret.
func (in *Input) judge() (*candidate, *refusal) {
	secret := in.Source
	refuse := func(format string, args ...any) (*candidate, *refusal) {
		return nil, &refusal{v1alpha1.ReasonCertificateRefused, fmt.Sprintf(format, args...)}
	}
	switch {
	case secret == nil:
		return nil, &refusal{v1alpha1.ReasonSecretNotFound, fmt.Sprintf("There is no Secret %s; create it with tls.crt, tls.key and ca.crt, or have cert-manager do so.", in.Name)}
	case metav1.IsControlledBy(secret, in.Cluster):
		return nil, &refusal{v1alpha1.ReasonSecretReserved, fmt.Sprintf("Secret %s is one of the cluster's own; name another one in spec.tls.serverSecret.", in.Name)}
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, keyAuthority} {
		if len(secret.Data[key]) == 0 {
			return refuse("Secret %s has nothing under the key %s; write it there, in PEM.", in.Name, key)
		}
	}
	pair := certificate.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
	parsed, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return refuse("tls.crt and tls.key of Secret %s can't be used together (%s); write a certificate with its key there.", in.Name, strings.TrimPrefix(err.Error(), "tls: "))
	}
	if why := unusable(parsed); why != "" {
		return refuse("tls.crt of Secret %s %s.", in.Name, why)
	}
	chain, err := in.verify(parsed)
	if err != nil {
		return refuse("tls.crt of Secret %s %v.", in.Name, err)
	}
	if missing := in.missing(parsed.Leaf); len(missing) > 0 {
		return refuse("The certificate of Secret %s lacks names that clients and instances use: %s; add them to dnsNames of the Certificate that fills the Secret.", in.Name, phrase.List(missing))
	}
	pair.Certificate = inPEM(parsed.Certificate...)
	if len(pair.Certificate)+len(pair.Key) > mostBytes {
		return refuse("tls.crt and tls.key of Secret %s are larger than 128 KiB; keep only the certificate, the intermediate certificates above it, and the key there.", in.Name)
	}
	return &candidate{pair: pair, root: inPEM(chain[len(chain)-1].Raw), until: agentapi.EndOf(chain)}, nil
}

// inPEM are certificates without anything around them, which OpenSSL could read differently.
func inPEM(certificates ...[]byte) (all []byte) {
	for _, der := range certificates {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return all
}

// leastBits of an RSA key that OpenSSL accepts at the security level of usual images.
const leastBits = 2048

// unusable says why PostgreSQL or its clients can't use certificates that are good otherwise. A server that can't load its own does not start.
func unusable(pair tls.Certificate) string {
	if pair.Leaf.SignatureAlgorithm == x509.PureEd25519 {
		return "is signed with Ed25519, for which TLS has no channel binding, so that logins with a password would fail; have it signed by a CA with an ECDSA or RSA key"
	}
	for _, der := range pair.Certificate {
		each, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Sprintf("has something that is not a certificate (%s); write only the certificate there, and the intermediate certificates above it", strings.TrimPrefix(err.Error(), "x509: "))
		}
		if key, isRSA := each.PublicKey.(*rsa.PublicKey); isRSA && key.N.BitLen() < leastBits {
			return fmt.Sprintf("has an RSA key of %d bits, and PostgreSQL would not start with less than %d; have it issued with a larger key", key.N.BitLen(), leastBits)
		}
	}
	return ""
}

// verify is how a certificate leads to a root, as libpq verifies it: only one that has signed itself counts. Of several ways it is the longest valid one.
func (in *Input) verify(pair tls.Certificate) ([]*x509.Certificate, error) {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(in.Source.Data[keyAuthority])
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	if in.Now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("has expired on %s; renew it", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if in.Now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("is not valid before %s; check the clock of its issuer", pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	options := x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: in.Now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	chains, err := pair.Leaf.Verify(options)
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage {
		return nil, errors.New("is not for servers; add \"server auth\" to usages of the Certificate that fills the Secret")
	}
	if options.CurrentTime = pair.Leaf.NotBefore; err != nil {
		if _, before := pair.Leaf.Verify(options); before == nil {
			return nil, errors.New("leads to a CA that has expired; renew the CA, and have the certificate issued again with the new one in ca.crt")
		}
		return nil, fmt.Errorf("is not signed by its ca.crt (%s); write the CA that has signed it there, and intermediate certificates after the one in tls.crt", strings.TrimPrefix(err.Error(), "x509: "))
	}
	var best []*x509.Certificate
	for _, chain := range chains {
		root := chain[len(chain)-1]
		signedItself := bytes.Equal(root.RawIssuer, root.RawSubject) && root.CheckSignatureFrom(root) == nil
		if signedItself && (best == nil || agentapi.EndOf(chain).After(agentapi.EndOf(best))) {
			best = chain
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, errors.New("leads to an intermediate CA in ca.crt; put the self-signed root into ca.crt, and the intermediate after the certificate in tls.crt")
}

// missing are the names that the certificate is not for.
func (in *Input) missing(leaf *x509.Certificate) (names []string) {
	for _, name := range in.Names {
		if leaf.VerifyHostname(strings.Replace(name, "*", "any-instance", 1)) != nil {
			names = append(names, name)
		}
	}
	return names
}
