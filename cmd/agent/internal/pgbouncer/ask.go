package pgbouncer

import (
	"bytes"
	"context"
	"crypto/rand"
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

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	askAgain = 100 * time.Millisecond
	// askTime is more than an agent needs for an answer that it keeps back.
	askTime   = agentapi.PoolerHold + time.Second
	maxAnswer = 64 << 10
)

// report is what came of a question.
type report struct {
	place  place
	answer agentapi.PoolerAnswer
	err    error
}

// poller asks the agent of the primary again and again. Any goroutine may use it.
type poller struct {
	tlsDir string
	port   int                     // of agents
	host   func(pod string) string // name in the certificate

	mu      sync.Mutex
	place   place
	request agentapi.PoolerRequest
	changed chan struct{}
}

func newPoller(tlsDir string, port int, host func(string) string) *poller {
	return &poller{tlsDir: tlsDir, port: port, host: host, request: agentapi.PoolerRequest{Process: rand.Text()}, changed: make(chan struct{})}
}

// tell changes who is asked, or what. A question that is open is put anew.
func (a *poller) tell(change func(*place, *agentapi.PoolerRequest)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	to, request := a.place, a.request
	change(&to, &request)
	if to == a.place && request == a.request {
		return
	}
	if to != a.place {
		request.Known = ""
	}
	request.Sequence++
	a.place, a.request = to, request
	close(a.changed)
	a.changed = make(chan struct{})
}

// again asks for an answer that may be the same as the last one.
func (a *poller) again() {
	a.tell(func(_ *place, request *agentapi.PoolerRequest) { request.Known = "" })
}

func (a *poller) next() (place, agentapi.PoolerRequest, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.place, a.request, a.changed
}

// run asks until ctx ends.
func (a *poller) run(ctx context.Context, reports chan<- report) {
	var client *http.Client
	var of place
	for ctx.Err() == nil {
		to, request, changed := a.next()
		var again <-chan time.Time
		if to != (place{}) {
			if client == nil || of != to {
				client, of = a.client(to), to
			}
			answer, err := a.ask(ctx, client, to, request, changed)
			select {
			case <-changed: // it was cut off, or is no news any more
				continue
			default:
			}
			if err != nil {
				client = nil
			}
			select {
			case reports <- report{to, answer, err}:
			case <-ctx.Done():
				return
			}
			if err == nil {
				a.known(to, answer.Version)
				continue
			}
			again = time.After(askAgain)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// known notes the answer that the next question is about.
func (a *poller) known(of place, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.place == of {
		a.request.Known = version
	}
}

func (a *poller) ask(ctx context.Context, client *http.Client, to place, request agentapi.PoolerRequest, changed <-chan struct{}) (answer agentapi.PoolerAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	url := "https://" + net.JoinHostPort(to.Address, strconv.Itoa(a.port)) + agentapi.RoutePooler
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	response, err := client.Do(call)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer, err
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the agent of %s answers %s: %s", to.Pod, response.Status, bytes.TrimSpace(content))
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return answer, err
	}
	if answer.Pod != to.Pod { // the address has become another's
		return answer, fmt.Errorf("%s answers where %s was", answer.Pod, to.Pod)
	}
	return answer, nil
}

// client connects to one agent, with the certificate that is there by then.
func (a *poller) client(to place) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		config, err := a.tls(to)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: config}
		return dialer.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: &http.Transport{DialTLSContext: dial, MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true}}
}

func (a *poller) tls(to place) (*tls.Config, error) {
	return a.trusting(to, filepath.Join(a.tlsDir, settings.CAFile))
}

// trusting is the TLS of this pooler with a pod whose certificate is of one of the CAs in a file.
func (a *poller) trusting(to place, file string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.tlsDir, settings.CertFile), filepath.Join(a.tlsDir, settings.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("the pooler's certificate: %w", err)
	}
	ca, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: a.host(to.Pod), Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, nil
}
