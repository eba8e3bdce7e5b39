// Package client is what the S3 drivers have in common: how they connect, where their credentials
// come from, and what a server's answer means.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 15 * time.Second
	// idleTimeout ends a connection on which nothing moves in either direction, so that a frozen
	// server doesn't hold a transfer for ever.
	idleTimeout = 60 * time.Second
	ioBuffer    = 128 << 10
	// frugalBuffer and frugalIdle are for stores of which many are open, and little is read.
	frugalBuffer = 4 << 10
	frugalIdle   = 5 * time.Second
	// CredentialsLifetime is how old credentials read from files may get before they are read again.
	CredentialsLifetime = 15 * time.Second
)

// Transport returns a transport for the config.
func Transport(config objstore.Config) (*http.Transport, error) {
	transport := &http.Transport{}
	return transport, Configure(transport, config)
}

// Configure makes a transport trust the config's CA bundle besides the system's, keep enough
// connections for parallel transfers, and give up on stalled ones.
func Configure(transport *http.Transport, config objstore.Config) error {
	pool, err := trust(config.CABundle)
	if err != nil {
		return err
	}
	transport.Proxy = http.ProxyFromEnvironment
	transport.DialContext = watched(newDialer())
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	transport.TLSHandshakeTimeout = dialTimeout
	transport.ExpectContinueTimeout = time.Second
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 64, 64
	transport.IdleConnTimeout = idleTimeout
	transport.DisableCompression = true
	transport.ForceAttemptHTTP2 = false // many connections carry more than one
	transport.WriteBufferSize, transport.ReadBufferSize = ioBuffer, ioBuffer
	if config.Frugal {
		transport.WriteBufferSize, transport.ReadBufferSize = frugalBuffer, frugalBuffer
		transport.IdleConnTimeout = frugalIdle
	}
	return nil
}

func trust(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(bundle)) {
		return nil, fmt.Errorf("%w: the CA bundle holds no PEM certificate", objstore.ErrConfig)
	}
	return pool, nil
}

// watchedConn fails when nothing was read or written for idleTimeout. A write also extends the
// deadline of reading, because the answer to a long upload comes after it.
type watchedConn struct{ net.Conn }

func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *watchedConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ReadCredentials reads the files of a credentials folder.
func ReadCredentials(dir string) (objstore.Credentials, error) {
	id, errID := readKey(dir, objstore.AccessKeyIDFile)
	secret, errSecret := readKey(dir, objstore.SecretAccessKeyFile)
	if err := errors.Join(errID, errSecret); err != nil {
		return objstore.Credentials{}, err
	}
	token, err := readKey(dir, objstore.SessionTokenFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return objstore.Credentials{}, err
	}
	return objstore.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}, nil
}

func readKey(dir, name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", fmt.Errorf("%w: the credentials have no usable %s: %w", objstore.ErrConfig, name, err)
	}
	key := strings.TrimSpace(string(content))
	if key == "" {
		return "", fmt.Errorf("%w: the credentials' %s is empty", objstore.ErrConfig, name)
	}
	return key, nil
}
