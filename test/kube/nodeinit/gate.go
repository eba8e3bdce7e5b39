package nodeinit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"howdah.dev/test/kube/command"
)

// gateEvery is how often a gate is tried: a boot passes two of them.
const gateEvery = 50 * time.Millisecond

// wait returns when the gate is open.
func (g Gate) wait(ctx context.Context) error {
	if g.Socket != "" {
		return command.Until(ctx, gateEvery, g.Socket, func(ctx context.Context) (bool, error) { return accepts(ctx, g.Socket), nil })
	}
	if g.URL == "" {
		return nil
	}
	client, err := NewClient(g.CA, g.Cert, g.Key)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return command.Until(ctx, gateEvery, g.URL, func(ctx context.Context) (bool, error) { return Answers(ctx, client, g.URL), nil })
}

func accepts(ctx context.Context, socket string) bool {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// NewClient returns an HTTP client that trusts one authority and has a certificate of its own.
func NewClient(caFile, certFile, keyFile string) (*http.Client, error) {
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	config := &tls.Config{RootCAs: pool}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 2 * time.Second}, nil
}

// Answers tells whether an address answers 200.
func Answers(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
