// Package api is the agent's HTTPS server.
package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// Agent answers.
type Agent interface {
	Alive() bool
	// Started waits for the first start to end, well or not, as long as the context lets it.
	Started(ctx context.Context) bool
	Ready(ctx context.Context) error
	Status() agentapi.Status
	// Restart says whether a restart has begun.
	Restart(ctx context.Context, request agentapi.RestartRequest) (bool, error)
	// Reinit takes note of a request to clone the data again, and says what came of it so far.
	Reinit(request agentapi.ReinitRequest) (agentapi.ReinitStatus, error)
	// Fault causes a fault for a failover drill, once for each token.
	Fault(ctx context.Context, request agentapi.FaultRequest) (agentapi.FaultStatus, error)
	// Election is this instance's part in it; nil: it has none yet.
	Election() Election
	// Respond answers a pooler, when what it knows is no longer true, or after a while.
	Respond(ctx context.Context, request agentapi.PoolerRequest) agentapi.PoolerAnswer
}

// Election answers the other instances.
type Election interface {
	Located(ctx context.Context, request agentapi.PositionRequest) (agentapi.Position, error)
	Followed(request agentapi.FollowRequest) agentapi.FollowAnswer
	Failsafe(request agentapi.FailsafeRequest) agentapi.FailsafeAnswer
	Switchover(request agentapi.SwitchoverRequest) agentapi.SwitchoverStatus
	AgreeWord(key agentapi.WordKey) agentapi.WordAnswer
}

const (
	requestTime = 10 * time.Second
	maxRequest  = 64 << 10
	// startTime is how long a readiness probe waits for the first start. Each that fails is an event of the pod, and the next
	// comes two seconds later. Kubelet gives a probe 5 s.
	startTime = 4 * time.Second
)

// Handler has the routes of agentapi.
func Handler(agent Agent, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	// The kubelet has no certificate, and learns nothing but yes or no.
	mux.HandleFunc("GET "+agentapi.RouteLive, func(w http.ResponseWriter, _ *http.Request) {
		probe(w, unless(agent.Alive(), "the supervisor does not respond"))
	})
	mux.HandleFunc("GET "+agentapi.RouteReady, func(w http.ResponseWriter, r *http.Request) {
		probe(w, ready(r.Context(), agent))
	})
	// Everything else is for who holds a certificate of the cluster's CA.
	mux.Handle("GET "+agentapi.RouteStatus, controllerOnly(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, agent.Status())
	}))
	mux.Handle("POST "+agentapi.RouteRestart, controllerOnly(func(w http.ResponseWriter, r *http.Request) {
		restart(w, r, agent)
	}))
	mux.Handle("POST "+agentapi.RouteSwitchover, controllerOnly(elected(agent, Election.Switchover)))
	mux.Handle("POST "+agentapi.RouteReinit, controllerOnly(func(w http.ResponseWriter, r *http.Request) { reinit(w, r, agent) }))
	mux.Handle("POST "+agentapi.RouteFault, controllerOnly(func(w http.ResponseWriter, r *http.Request) { fault(w, r, agent) }))
	// These are for the agents of the same cluster.
	mux.Handle("GET "+agentapi.RoutePosition, peerOnly(func(w http.ResponseWriter, r *http.Request) { locate(w, r, agent) }))
	mux.Handle("POST "+agentapi.RouteFollow, peerOnly(elected(agent, Election.Followed)))
	mux.Handle("POST "+agentapi.RouteFailsafe, peerOnly(elected(agent, Election.Failsafe)))
	mux.Handle("POST "+agentapi.RouteWord, peerOnly(elected(agent, Election.AgreeWord)))
	// This is for the poolers of the cluster.
	mux.Handle("POST "+agentapi.RoutePooler, poolerOnly(func(w http.ResponseWriter, r *http.Request) { respond(w, r, agent) }))
	mux.Handle("GET "+agentapi.RouteMetrics, verified(func(string) bool { return true }, metrics))
	return mux
}

// Pooler answers for a pooler.
type Pooler interface {
	Alive() bool
	// Ready says why clients should not come.
	Ready() error
}

// PoolerHandler has the routes of a pooler.
func PoolerHandler(pooler Pooler, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.RouteLive, func(w http.ResponseWriter, _ *http.Request) {
		probe(w, unless(pooler.Alive(), "the supervisor does not respond"))
	})
	mux.HandleFunc("GET "+agentapi.RouteReady, func(w http.ResponseWriter, _ *http.Request) { probe(w, pooler.Ready()) })
	mux.Handle("GET "+agentapi.RouteMetrics, verified(func(string) bool { return true }, metrics))
	return mux
}

// ready doesn't respond while the first start is in progress, until it has to: so the first answer can be yes.
func ready(ctx context.Context, agent Agent) error {
	start, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if !agent.Started(start) {
		return errors.New("PostgreSQL has not come up yet")
	}
	return agent.Ready(ctx)
}

func unless(ok bool, sentence string) error {
	if ok {
		return nil
	}
	return errors.New(sentence)
}

func probe(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func controllerOnly(handler http.HandlerFunc) http.Handler {
	return verified(func(name string) bool { return name == agentapi.ControllerCommonName }, handler)
}

func peerOnly(handler http.HandlerFunc) http.Handler {
	return verified(func(name string) bool { return name == agentapi.ReplicationRole }, handler)
}

func poolerOnly(handler http.HandlerFunc) http.Handler {
	return verified(func(name string) bool { return name == agentapi.PoolerRole }, handler)
}

func respond(w http.ResponseWriter, r *http.Request, agent Agent) {
	var request agentapi.PoolerRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, agent.Respond(r.Context(), request))
}

// elected is a route that asks the election.
func elected[Request, Answer any](agent Agent, ask func(Election, Request) Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request Request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
			http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		election := agent.Election()
		if election == nil {
			http.Error(w, "this instance takes no part in an election yet", http.StatusServiceUnavailable)
			return
		}
		answer(w, ask(election, request))
	}
}

func locate(w http.ResponseWriter, r *http.Request, agent Agent) {
	election := agent.Election()
	if election == nil {
		http.Error(w, "this instance takes no part in an election yet", http.StatusServiceUnavailable)
		return
	}
	var request agentapi.PositionRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	position, err := election.Located(r.Context(), request)
	if err != nil {
		http.Error(w, "the server doesn't say where it is", http.StatusServiceUnavailable)
		return
	}
	answer(w, position)
}

// verified lets those in whose certificate the cluster's CA has signed and whose common name is allowed.
func verified(allowed func(commonName string) bool, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "a client certificate of the cluster's CA is needed", http.StatusUnauthorized)
			return
		}
		if name := r.TLS.VerifiedChains[0][0].Subject.CommonName; !allowed(name) {
			http.Error(w, fmt.Sprintf("%q may not do this", name), http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func restart(w http.ResponseWriter, r *http.Request, agent Agent) {
	request := agentapi.RestartRequest{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	begun, err := agent.Restart(r.Context(), request)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case begun:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusNoContent) // there was nothing to do
	}
}

func reinit(w http.ResponseWriter, r *http.Request, agent Agent) {
	request := agentapi.ReinitRequest{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	if request.Token == "" {
		http.Error(w, "the request has no token", http.StatusBadRequest)
		return
	}
	status, err := agent.Reinit(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, status)
}

func fault(w http.ResponseWriter, r *http.Request, agent Agent) {
	request := agentapi.FaultRequest{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
		http.Error(w, "the request can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	if request.Token == "" {
		http.Error(w, "the request has no token", http.StatusBadRequest)
		return
	}
	status, err := agent.Fault(r.Context(), request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, status)
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		slog.Debug("an answer could not be written", "error", err)
	}
}

// Server serves handler with the certificate in tlsDir, which is read again when it changes.
func Server(handler http.Handler, tlsDir string, log *slog.Logger) *http.Server {
	files := &certificates{dir: tlsDir}
	return &http.Server{
		Handler:           http.TimeoutHandler(handler, requestTime, "the agent took too long"),
		ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxRequest,
		TLSConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.config() },
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // handshakes that fail are not ours to complain of
	}
}

// certificates are the TLS files in a folder that Kubernetes replaces now and then.
type certificates struct {
	dir string

	mu     sync.Mutex
	read   time.Time
	cached *tls.Config
}

const certificateAge = 5 * time.Second

func (c *certificates) config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached != nil && time.Since(c.read) < certificateAge {
		return c.cached, nil
	}
	fresh, err := c.load()
	if err != nil && c.cached == nil {
		return nil, err
	}
	if err == nil { // else the files are being replaced: the old ones are good until then
		c.cached = fresh
	}
	c.read = time.Now()
	return c.cached, nil
}

func (c *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.dir, settings.CertFile), filepath.Join(c.dir, settings.KeyFile))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(c.dir, settings.CAFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no PEM certificate", settings.CAFile)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven, NextProtos: []string{"http/1.1"},
	}, nil
}
