package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/authority"
)

type agent struct {
	alive, started bool
	starting       chan struct{} // closed by the start; nil: it never starts
	ready          error
	asked          []agentapi.RestartRequest
	reinits        []agentapi.ReinitRequest
	faults         []agentapi.FaultRequest
	full           error
}

func (a *agent) Alive() bool                 { return a.alive }
func (a *agent) Ready(context.Context) error { return a.ready }
func (a *agent) Status() agentapi.Status     { return agentapi.Status{Pod: "shop-0"} }
func (a *agent) Election() Election          { return nil }
func (a *agent) Respond(_ context.Context, r agentapi.PoolerRequest) agentapi.PoolerAnswer {
	return agentapi.PoolerAnswer{Pod: "shop-0", Version: r.Known}
}
func (a *agent) Started(ctx context.Context) bool {
	if a.started || a.starting == nil {
		return a.started
	}
	select {
	case <-a.starting:
		return true
	case <-ctx.Done():
		return false
	}
}
func (a *agent) Restart(_ context.Context, r agentapi.RestartRequest) (bool, error) {
	a.asked = append(a.asked, r)
	return r.ConfigHash == "pending", nil
}

func (a *agent) Reinit(r agentapi.ReinitRequest) (agentapi.ReinitStatus, error) {
	a.reinits = append(a.reinits, r)
	return agentapi.ReinitStatus{Token: r.Token, State: agentapi.ReinitRunning}, a.full
}

func (a *agent) Fault(_ context.Context, r agentapi.FaultRequest) (agentapi.FaultStatus, error) {
	a.faults = append(a.faults, r)
	return agentapi.FaultStatus{Token: r.Token, State: agentapi.FaultRunning}, a.full
}

// serve serves a and returns the server's URL.
func serve(t *testing.T, a Agent, ca *authority.Authority) string {
	t.Helper()
	dir := t.TempDir()
	ca.Fill(t, dir, "shop-0", "127.0.0.1")
	metrics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := Server(Handler(a, metrics), dir, slog.New(slog.DiscardHandler))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(tls.NewListener(listener, server.TLSConfig))
	t.Cleanup(func() { server.Close() })
	return "https://" + listener.Addr().String()
}

// client trusts ca and shows a certificate of signer with this common name, or none.
func client(t *testing.T, ca, signer *authority.Authority, name string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate)
	config := &tls.Config{RootCAs: pool}
	if name != "" {
		pair := signer.Issue(t, name)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func get(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	response, err := c.Get(url)
	if err != nil {
		return 0 // refused before HTTP
	}
	response.Body.Close()
	return response.StatusCode
}

func TestWhoMayAskForWhat(t *testing.T) {
	ca := authority.New(t)
	url := serve(t, &agent{alive: true, started: true}, ca)
	nobody := client(t, ca, ca, "")
	stranger := client(t, ca, authority.New(t), agentapi.ControllerCommonName)
	backup := client(t, ca, ca, agentapi.BackupRole)
	controller := client(t, ca, ca, agentapi.ControllerCommonName)
	for _, test := range []struct {
		route                                 string
		nobody, stranger, backup, controllers int
	}{
		{agentapi.RouteLive, 200, 0, 200, 200},
		{agentapi.RouteReady, 200, 0, 200, 200},
		{agentapi.RouteStatus, 401, 0, 403, 200},
		{agentapi.RouteMetrics, 401, 0, 200, 200},
		{agentapi.RouteRestart, 405, 0, 405, 405},
		{agentapi.RouteReinit, 405, 0, 405, 405},
		{"/", 404, 0, 404, 404},
	} {
		t.Run(test.route, func(t *testing.T) {
			got := [4]int{get(t, nobody, url+test.route), get(t, stranger, url+test.route), get(t, backup, url+test.route), get(t, controller, url+test.route)}
			if want := [4]int{test.nobody, test.stranger, test.backup, test.controllers}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestProbesSayNo(t *testing.T) {
	ca := authority.New(t)
	url := serve(t, &agent{started: true, ready: errors.New("PostgreSQL is Stopped")}, ca)
	for _, route := range []string{agentapi.RouteLive, agentapi.RouteReady} {
		if got := get(t, client(t, ca, ca, ""), url+route); got != http.StatusServiceUnavailable {
			t.Errorf("%s answers %d", route, got)
		}
	}
}

func TestAReadinessProbeWaitsSomeSecondsForTheFirstStart(t *testing.T) {
	ca := authority.New(t)
	a := &agent{alive: true, starting: make(chan struct{})}
	server := serve(t, a, ca)
	url := server + agentapi.RouteReady
	asked := time.Now()
	if got := get(t, client(t, ca, ca, ""), url); got != http.StatusServiceUnavailable || time.Since(asked) < startTime {
		t.Errorf("it answers %d after %s", got, time.Since(asked))
	}
	if got := get(t, client(t, ca, ca, ""), server+agentapi.RouteLive); got != http.StatusOK {
		t.Errorf("while it starts it is said to be dead: %d", got)
	}
	time.AfterFunc(100*time.Millisecond, func() { close(a.starting) })
	asked = time.Now()
	if got := get(t, client(t, ca, ca, ""), url); got != http.StatusOK {
		t.Errorf("it answers %d after %s, when it has begun", got, time.Since(asked))
	}
}

func TestARestartIsPassedOn(t *testing.T) {
	ca := authority.New(t)
	a := &agent{}
	url := serve(t, a, ca)
	post := func(c *http.Client, body string) int {
		response, err := c.Post(url+agentapi.RouteRestart, "application/json", bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	controller := client(t, ca, ca, agentapi.ControllerCommonName)
	for hash, want := range map[string]int{"pending": http.StatusAccepted, "settled": http.StatusNoContent} {
		body, err := json.Marshal(agentapi.RestartRequest{ConfigHash: hash})
		if got := post(controller, string(body)); got != want || err != nil {
			t.Errorf("%s: %d, %v", hash, got, err)
		}
	}
	if got := post(controller, "?"); got != http.StatusBadRequest {
		t.Errorf("nonsense: %d", got)
	}
	if got := post(client(t, ca, ca, agentapi.UpgradeRole), `{}`); got != http.StatusForbidden || len(a.asked) != 2 {
		t.Errorf("another role: %d, and %d requests passed", got, len(a.asked))
	}
}

func TestAReinitIsPassedOnAndAnswered(t *testing.T) {
	ca := authority.New(t)
	a := &agent{}
	url := serve(t, a, ca)
	post := func(name, body string) (int, agentapi.ReinitStatus) {
		response, err := client(t, ca, ca, name).Post(url+agentapi.RouteReinit, "application/json", bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		status := agentapi.ReinitStatus{}
		if response.StatusCode == http.StatusOK {
			if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
				t.Fatal(err)
			}
		}
		return response.StatusCode, status
	}
	if code, status := post(agentapi.ControllerCommonName, `{"token":"a"}`); code != http.StatusOK || status != (agentapi.ReinitStatus{Token: "a", State: agentapi.ReinitRunning}) {
		t.Errorf("%d, %+v", code, status)
	}
	for body, name := range map[string]string{"?": "nonsense", "{}": "no token"} {
		if code, _ := post(agentapi.ControllerCommonName, body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := post(agentapi.ReplicationRole, `{"token":"b"}`); code != http.StatusForbidden || len(a.reinits) != 1 {
		t.Errorf("another agent: %d, and %d requests passed", code, len(a.reinits))
	}
	a.full = errors.New("the volume is full")
	if code, _ := post(agentapi.ControllerCommonName, `{"token":"c"}`); code != http.StatusServiceUnavailable {
		t.Errorf("a request that can't be recorded: %d", code)
	}
}

func TestAFaultIsCausedOnlyForTheController(t *testing.T) {
	ca := authority.New(t)
	a := &agent{}
	url := serve(t, a, ca)
	post := func(name, body string) int {
		response, err := client(t, ca, ca, name).Post(url+agentapi.RouteFault, "application/json", bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	const kill = `{"token":"a","fault":"KillPostmaster"}`
	for _, name := range []string{agentapi.ReplicationRole, agentapi.FailoverDrillRole, agentapi.PoolerRole, agentapi.MetricsCommonName} {
		if code := post(name, kill); code != http.StatusForbidden || len(a.faults) > 0 {
			t.Errorf("%s: %d, and %d requests passed", name, code, len(a.faults))
		}
	}
	for body, name := range map[string]string{"?": "nonsense", `{"fault":"KillPostmaster"}`: "no token"} {
		if code := post(agentapi.ControllerCommonName, body); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := post(agentapi.ControllerCommonName, kill); code != http.StatusOK || len(a.faults) != 1 || a.faults[0].Fault != agentapi.FaultKill {
		t.Errorf("%d, %+v", code, a.faults)
	}
	a.full = errors.New("the volume is full")
	if code := post(agentapi.ControllerCommonName, kill); code != http.StatusServiceUnavailable {
		t.Errorf("a fault that can't be recorded: %d", code)
	}
}
