// Package kube is the little of the Kubernetes API that an agent needs: server-side apply as the pod's own identity. It
// is no client-go, because the agent stands in every pod and has to be small.
package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrOutside says that this process doesn't run in a pod with an identity.
var ErrOutside = errors.New("no Kubernetes API server is known: not in a pod, or the pod has no service account token")

const (
	serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	requestTimeout    = 15 * time.Second
	connectTimeout    = 10 * time.Second
	maxAnswer         = 1 << 20
)

// Client calls the API server.
type Client struct {
	base      string
	tokenFile string
	http      *http.Client
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	Code    int    // of HTTP
	Reason  string // such as NotFound
	Message string
}

// Error is the server's message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("Kubernetes answers %d %s: %s", e.Code, e.Reason, e.Message)
}

// IsNotFound says that the object, its kind or its namespace doesn't exist.
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsConflict says that the object is another one than was meant, or that another manager owns a field.
func IsConflict(err error) bool { return hasCode(err, http.StatusConflict) }

func hasCode(err error, code int) bool {
	status := &StatusError{}
	return errors.As(err, &status) && status.Code == code
}

// InCluster is the client of the pod's service account.
func InCluster() (*Client, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	caFile := filepath.Join(serviceAccountDir, "ca.crt")
	if _, err := os.Stat(caFile); host == "" || port == "" || err != nil {
		return nil, ErrOutside
	}
	return New("https://"+net.JoinHostPort(host, port), caFile, filepath.Join(serviceAccountDir, "token"))
}

// New is the client of a server, whose certificate the CA in caFile (PEM) has signed, as the identity of the token in
// tokenFile. Both are replaced now and then: the CA is read again for each connection, the token for each request.
func New(base, caFile, tokenFile string) (*Client, error) {
	if _, err := authorities(caFile); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialTLSContext:        dialer(caFile),
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          1,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: requestTimeout,
		// A connection to a server that is gone must not swallow request after request.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 3 * time.Second, PingTimeout: 2 * time.Second},
	}
	return &Client{base: base, tokenFile: tokenFile, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// dialer connects to who has a certificate of the CA that is in the file by then.
func dialer(caFile string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		pool, err := authorities(caFile)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		with := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}}
		return with.DialContext(ctx, network, address)
	}
}

func authorities(caFile string) (*x509.CertPool, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("the CA of the Kubernetes API server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA of the Kubernetes API server holds no PEM certificate")
	}
	return pool, nil
}

// Apply does a server-side apply: what object says becomes so, and belongs to manager from then on. Path is that of the
// object or of its status.
func (c *Client) Apply(ctx context.Context, path, manager string, object any) error {
	return c.ApplyAndRead(ctx, path, manager, object, nil)
}

// ApplyAndRead is Apply, and reads what the object has become into into.
func (c *Client) ApplyAndRead(ctx context.Context, path, manager string, object, into any) error {
	return c.apply(ctx, path, url.Values{"fieldManager": {manager}, "force": {"true"}}, object, into)
}

// Create creates the object at path, or fills in what nobody has set of one that is there, and reads what it has become into into.
// Where anyone else has set something to another value, it changes nothing and fails with a conflict. Unlike a POST, it can be allowed for
// one name alone.
func (c *Client) Create(ctx context.Context, path, manager string, object, into any) error {
	return c.apply(ctx, path, url.Values{"fieldManager": {manager}}, object, into)
}

func (c *Client) apply(ctx context.Context, path string, query url.Values, object, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, c.base+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	return c.do(request, into)
}

// Get reads the object at path.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	return c.do(request, into)
}

// Clock says how far the clock here is ahead of the API server's, whose answer tells the time in seconds; negative: it is behind.
func (c *Client) Clock(ctx context.Context) (ahead time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/version", nil)
	if err != nil {
		return 0, err
	}
	if err := c.authorize(request); err != nil {
		return 0, err
	}
	sent := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	received := time.Now()
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)); err != nil {
		return 0, err
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("the API server does not tell the time: %w", err)
	}
	return sent.Add(received.Sub(sent) / 2).Sub(date.Add(time.Second / 2)), nil
}

func (c *Client) authorize(request *http.Request) error {
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return fmt.Errorf("service account token: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "howdah-agent")
	return nil
}

func (c *Client) do(request *http.Request, into any) error {
	if err := c.authorize(request); err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return statusError(response.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func statusError(code int, answer []byte) error {
	status := struct{ Reason, Message string }{}
	if err := json.Unmarshal(answer, &status); err != nil || status.Message == "" {
		status.Message = http.StatusText(code)
	}
	return &StatusError{Code: code, Reason: status.Reason, Message: status.Message}
}
