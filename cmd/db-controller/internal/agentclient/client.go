// Package agentclient asks the agents of database pods how they are, over mutual TLS. A client certificate is created in memory
// from the CA of the pod's cluster, so no identity is stored that opens every cluster.
package agentclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/pkg/agentapi"
)

// ErrResponse is an agent that responded, but not as it should.
var ErrResponse = errors.New("unexpected response of the agent")

// ErrUnknownRoute is an agent of a version that doesn't know a request.
var ErrUnknownRoute = errors.New("the agent doesn't know the request")

// Limits of one question.
const (
	timeLimit = time.Second
	// suspectTimeLimit is for an agent that didn't respond in time before: it may only be slow, on a node whose processors are busy.
	suspectTimeLimit = 3 * time.Second
	responseLimit    = 1 << 20
	idleLimit        = time.Minute
	identityLife     = certificate.LeafLife / 3
)

// Target is the agent of one pod.
type Target struct {
	// IP of the pod; Host is the name that its certificate must carry.
	IP, Host string
	// Port of the agent; 0 is agentapi.AgentPort.
	Port int
	// Authority of its cluster.
	Authority *certificate.Authority
}

// Client keeps a connection to each agent that it has called lately.
type Client struct {
	now func() time.Time

	mu    sync.Mutex
	known map[key]*connection
	// identities by the sum of the cluster's authority.
	identities map[[sha256.Size]byte]*identity
	// swept is when the table was last searched for what nobody uses.
	swept time.Time
}

// key of a connection.
type key struct{ host, ip string }

type connection struct {
	http      *http.Client
	authority [sha256.Size]byte
	made      time.Time
	used      time.Time
}

// identity is what all agents of one cluster are shown, and believed by.
type identity struct {
	own   tls.Certificate
	roots *x509.CertPool
	made  time.Time
	used  time.Time
}

// New returns a client.
func New(now func() time.Time) *Client {
	return &Client{now: now, known: map[key]*connection{}, identities: map[[sha256.Size]byte]*identity{}}
}

// Status asks an agent for its state. The context limits how long that takes.
func (c *Client) Status(ctx context.Context, target Target) (*agentapi.Status, error) {
	status := &agentapi.Status{}
	if err := c.call(ctx, target, http.MethodGet, agentapi.RouteStatus, nil, status); err != nil {
		return nil, err
	}
	return status, nil
}

// Restart asks an agent to restart PostgreSQL for the parameters that wait for it.
func (c *Client) Restart(ctx context.Context, target Target, configHash string) error {
	body, err := json.Marshal(agentapi.RestartRequest{ConfigHash: configHash})
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return c.act(ctx, target, agentapi.RouteRestart, body)
}

// Switchover requests of the primary's agent that it hands over. Its status says how that goes.
func (c *Client) Switchover(ctx context.Context, target Target, request agentapi.SwitchoverRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return c.act(ctx, target, agentapi.RouteSwitchover, body)
}

// Reinit requests of a replica's agent that it clones its data again. Its status says how that goes.
func (c *Client) Reinit(ctx context.Context, target Target, request agentapi.ReinitRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return c.act(ctx, target, agentapi.RouteReinit, body)
}

// Fault has the primary's agent cause a fault for a failover drill. Its status says what came of it.
func (c *Client) Fault(ctx context.Context, target Target, request agentapi.FaultRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("marshal request: %w", err)
	}
	return c.act(ctx, target, agentapi.RouteFault, body)
}

// act requests something of an agent, which only takes note of it.
func (c *Client) act(ctx context.Context, target Target, route string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, suspectTimeLimit)
	defer cancel()
	return c.call(ctx, target, http.MethodPost, route, body, nil)
}

func (c *Client) call(ctx context.Context, target Target, method, route string, body []byte, into any) error {
	client, err := c.client(target)
	if err != nil {
		return err
	}
	url := "https://" + net.JoinHostPort(target.IP, strconv.Itoa(cmp.Or(target.Port, agentapi.AgentPort))) + route
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call agent of %s: %w", target.Host, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("call agent of %s: %w", target.Host, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, responseLimit))
	if err != nil {
		return fmt.Errorf("read response of %s: %w", target.Host, err)
	}
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s %s of %s", ErrUnknownRoute, method, route, target.Host)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%w of %s to %s %s: %s", ErrResponse, target.Host, method, route, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%w of %s: %w", ErrResponse, target.Host, err)
	}
	return nil
}

// client is the one that is known for the target, unless its CA or its own certificate has aged since. Nobody waits for the key of
// another.
func (c *Client) client(target Target) (*http.Client, error) {
	now, authority := c.now(), sha256.Sum256(target.Authority.Bundle)
	if known := c.recall(key{target.Host, target.IP}, authority, now); known != nil {
		return known, nil
	}
	shown, err := c.identity(target.Authority, authority, now)
	if err != nil {
		return nil, err
	}
	made := newHTTPClient(target.Host, shown)
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous := c.known[key{target.Host, target.IP}]; previous != nil {
		previous.http.CloseIdleConnections()
	}
	c.known[key{target.Host, target.IP}] = &connection{http: made, authority: authority, made: shown.made, used: now}
	return made, nil
}

func (c *Client) recall(name key, authority [sha256.Size]byte, now time.Time) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(now)
	known := c.known[name]
	if known == nil || known.authority != authority || now.Sub(known.made) >= identityLife {
		return nil
	}
	known.used = now
	return known.http
}

// sweep drops what was not used for a while: pods that were deleted. It searches the table once in a while, and not for each call.
func (c *Client) sweep(now time.Time) {
	if now.Sub(c.swept) < idleLimit {
		return
	}
	c.swept = now
	for name, known := range c.known {
		if now.Sub(known.used) > 10*idleLimit {
			known.http.CloseIdleConnections()
			delete(c.known, name)
		}
	}
	for sum, known := range c.identities {
		if now.Sub(known.used) > 10*idleLimit {
			delete(c.identities, sum) // connections keep what they have
		}
	}
}

// identity for a cluster, unless the one that is known has aged. A key is made outside of the lock: of two that are made at once, one is
// used.
func (c *Client) identity(authority *certificate.Authority, sum [sha256.Size]byte, now time.Time) (*identity, error) {
	if known := c.recallIdentity(sum, now); known != nil {
		return known, nil
	}
	pair, err := authority.Issue(certificate.Request{CommonName: agentapi.ControllerCommonName}, now)
	if err != nil {
		return nil, err
	}
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("read own certificate: %w", err)
	}
	made := &identity{own: own, roots: x509.NewCertPool(), made: now, used: now}
	made.roots.AppendCertsFromPEM(authority.Bundle)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.identities[sum] = made
	return made, nil
}

func (c *Client) recallIdentity(sum [sha256.Size]byte, now time.Time) *identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.identities[sum]
	if known == nil || now.Sub(known.made) >= identityLife {
		return nil
	}
	known.used = now
	return known
}

func newHTTPClient(host string, shown *identity) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: shown.roots, ServerName: host, Certificates: []tls.Certificate{shown.own},
		},
		// There are thousands of connections, and an answer is a few kilobytes.
		ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
		// A dial continues when whoever asked has given up.
		DialContext: (&net.Dialer{Timeout: suspectTimeLimit}).DialContext, TLSHandshakeTimeout: suspectTimeLimit,
		MaxIdleConns: 1, IdleConnTimeout: idleLimit, ForceAttemptHTTP2: false, DisableCompression: true,
	}}
}
