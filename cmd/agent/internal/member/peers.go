package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// HTTPS asks other agents with the certificate in a folder, which Kubernetes replaces now and then.
type HTTPS struct {
	// Domain completes a pod's name to the one in its certificate.
	Domain string
	TLSDir string
	// API knows where pods of the Namespace are.
	API       API
	Namespace string

	mu      sync.Mutex
	clients map[string]*peerClient
	places  map[string]place
}

type peerClient struct {
	http    *http.Client
	address string
	made    time.Time
}

const (
	clientAge = 10 * time.Minute // after which the certificate is read again
	maxAnswer = 64 << 10
)

// Position asks how far a member is.
func (h *HTTPS) Position(ctx context.Context, to elect.Member, request agentapi.PositionRequest) (position agentapi.Position, err error) {
	return position, h.call(ctx, to, http.MethodGet, agentapi.RoutePosition, request, &position)
}

// Failsafe asks a member whether it follows.
func (h *HTTPS) Failsafe(ctx context.Context, to elect.Member, request agentapi.FailsafeRequest) (answer agentapi.FailsafeAnswer, err error) {
	return answer, h.call(ctx, to, http.MethodPost, agentapi.RouteFailsafe, request, &answer)
}

// Follow tells the primary how far this replica is.
func (h *HTTPS) Follow(ctx context.Context, to elect.Member, request agentapi.FollowRequest) (answer agentapi.FollowAnswer, err error) {
	return answer, h.call(ctx, to, http.MethodPost, agentapi.RouteFollow, request, &answer)
}

func (h *HTTPS) call(ctx context.Context, to elect.Member, method, route string, request, into any) error {
	client, err := h.client(to)
	if err != nil {
		return err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	url := "https://" + net.JoinHostPort(to.Address, strconv.Itoa(agentapi.AgentPort)) + route
	call, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(call)
	if err != nil {
		client.CloseIdleConnections() // a connection to a dead node would be tried again
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent of %s answers %s: %s", to.Name, response.Status, bytes.TrimSpace(answer))
	}
	return json.Unmarshal(answer, into)
}

func (h *HTTPS) client(to elect.Member) (*http.Client, error) {
	if to.Address == "" {
		return nil, fmt.Errorf("the address of %s is not known", to.Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.clients[to.Name]; known != nil && known.address == to.Address && time.Since(known.made) < clientAge {
		return known.http, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(h.TLSDir, settings.CertFile), filepath.Join(h.TLSDir, settings.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("the certificate for other agents: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(h.TLSDir, settings.CAFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{
		DialContext: h.dialer(to.Name),
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: to.Name + "." + h.Domain, Certificates: []tls.Certificate{pair},
		},
		MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
	if h.clients == nil {
		h.clients = map[string]*peerClient{}
	}
	if old := h.clients[to.Name]; old != nil {
		old.http.CloseIdleConnections()
	}
	h.clients[to.Name] = &peerClient{client, to.Address, time.Now()}
	return client, nil
}
