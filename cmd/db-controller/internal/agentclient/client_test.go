package agentclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/pkg/agentapi"
)

func authority(t *testing.T) *certificate.Authority {
	t.Helper()
	a, err := certificate.NewAuthority("shop", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// agent serves with a certificate for host, and returns its port.
func agent(t *testing.T, a *certificate.Authority, host string, handler http.HandlerFunc) int {
	t.Helper()
	pair, err := a.Issue(certificate.Request{CommonName: "shop", DNSNames: []string{host}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(a.Bundle)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

const host = "shop-0.shop-pods.demo.svc"

func TestTheStateOfAnAgentIsReadAsTheController(t *testing.T) {
	a := authority(t)
	port := agent(t, a, "*.shop-pods.demo.svc", func(w http.ResponseWriter, r *http.Request) {
		if name := r.TLS.PeerCertificates[0].Subject.CommonName; name != agentapi.ControllerCommonName {
			t.Errorf("the client is %s", name)
		}
		_ = json.NewEncoder(w).Encode(agentapi.Status{Pod: "shop-0", State: agentapi.StateRunning})
	})
	client := New(time.Now)
	for range 2 { // the second time over the connection that is there
		status, err := client.Status(context.Background(), Target{IP: "127.0.0.1", Port: port, Host: host, Authority: a})
		if err != nil || status.Pod != "shop-0" || status.State != agentapi.StateRunning {
			t.Fatalf("%+v, %v", status, err)
		}
	}
}

func TestAnAgentOfAnotherClusterIsNotBelieved(t *testing.T) {
	port := agent(t, authority(t), host, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	if _, err := New(time.Now).Status(context.Background(), Target{IP: "127.0.0.1", Port: port, Host: host, Authority: authority(t)}); err == nil {
		t.Error("it was believed")
	}
}

func TestAPodOfAnotherNameIsNotBelieved(t *testing.T) {
	a := authority(t)
	port := agent(t, a, host, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	if _, err := New(time.Now).Status(context.Background(), Target{IP: "127.0.0.1", Port: port, Host: "shop-1.shop-pods.demo.svc", Authority: a}); err == nil {
		t.Error("it was believed")
	}
}

func TestARestartCarriesTheHashAndARefusalIsAnError(t *testing.T) {
	a := authority(t)
	port := agent(t, a, host, func(w http.ResponseWriter, r *http.Request) {
		request := agentapi.RestartRequest{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != agentapi.RouteRestart || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		if request.ConfigHash != "c1" {
			http.Error(w, "another configuration", http.StatusConflict)
		}
	})
	client, target := New(time.Now), Target{IP: "127.0.0.1", Port: port, Host: host, Authority: a}
	if err := client.Restart(context.Background(), target, "c1"); err != nil {
		t.Error(err)
	}
	if err := client.Restart(context.Background(), target, "c2"); !errors.Is(err, ErrResponse) || !strings.Contains(err.Error(), "409") {
		t.Errorf("got %v", err)
	}
}

func TestAnAgentThatDoesNotKnowAReinitIsToldFromOneThatFails(t *testing.T) {
	a, known := authority(t), false
	port := agent(t, a, host, func(w http.ResponseWriter, r *http.Request) {
		request := agentapi.ReinitRequest{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Token != "a" || r.URL.Path != agentapi.RouteReinit {
			t.Errorf("%s: %+v, %v", r.URL.Path, request, err)
		}
		if !known {
			http.NotFound(w, r)
			return
		}
		http.Error(w, "the volume is full", http.StatusServiceUnavailable)
	})
	client, target := New(time.Now), Target{IP: "127.0.0.1", Port: port, Host: host, Authority: a}
	if err := client.Reinit(context.Background(), target, agentapi.ReinitRequest{Token: "a"}); !errors.Is(err, ErrUnknownRoute) {
		t.Errorf("got %v", err)
	}
	known = true
	if err := client.Reinit(context.Background(), target, agentapi.ReinitRequest{Token: "a"}); !errors.Is(err, ErrResponse) || errors.Is(err, ErrUnknownRoute) {
		t.Errorf("got %v", err)
	}
}
