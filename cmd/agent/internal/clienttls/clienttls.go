// Package clienttls reads the certificate by which a Job logs in at PostgreSQL.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
)

// Config verifies that the server is host, and presents the client certificate in a folder, which has ca.crt, tls.crt and tls.key.
func Config(host, certificates string) (*tls.Config, error) {
	authority, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt of the client certificate holds no PEM certificate")
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, ServerName: host, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
