package servertls

import (
	"bytes"
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
)

// candidate is a certificate that servers could show.
type candidate struct {
	pair certificate.Pair
	root []byte // that it leads to, in PEM
	leaf *x509.Certificate
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
	root, err := in.verify(parsed)
	if err != nil {
		return refuse("tls.crt of Secret %s %v.", in.Name, err)
	}
	if missing := in.missing(parsed.Leaf); len(missing) > 0 {
		return refuse("The certificate of Secret %s lacks names that clients and instances use: %s; add them to dnsNames of the Certificate that fills the Secret.", in.Name, phrase.List(missing))
	}
	return &candidate{pair: pair, root: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}), leaf: parsed.Leaf}, nil
}

// verify is the root that a certificate leads to, as libpq verifies it: only one that has signed itself counts.
func (in *Input) verify(pair tls.Certificate) (*x509.Certificate, error) {
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
		return nil, fmt.Errorf("is not valid before %s; look at the clock of who issues it", pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	chains, err := pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: in.Now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage {
		return nil, errors.New("is not for servers; add \"server auth\" to usages of the Certificate that fills the Secret")
	}
	if err != nil {
		return nil, fmt.Errorf("is not signed by its ca.crt (%s); write the CA that has signed it there, and intermediate certificates behind the one in tls.crt", strings.TrimPrefix(err.Error(), "x509: "))
	}
	for _, chain := range chains {
		root := chain[len(chain)-1]
		if bytes.Equal(root.RawIssuer, root.RawSubject) && root.CheckSignatureFrom(root) == nil {
			return root, nil
		}
	}
	return nil, errors.New("leads to an intermediate CA in ca.crt; write the root, which has signed itself, there, and the intermediate behind the certificate in tls.crt")
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
