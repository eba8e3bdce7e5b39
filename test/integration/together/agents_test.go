//go:build integration

package together

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/agentapi"
)

// annotationGeneration of a pod says which data generation it runs.
const annotationGeneration = "howdah.dev/data-generation"

// systemIdentifier of every database here: that of the backup.
const systemIdentifier = "7"

// serveAgents answers for the agents of all database pods, and returns the address that all pods have. Who is asked follows
// from the name that the db-controller expects in the certificate.
func serveAgents(t *testing.T, reader client.Reader) string {
	t.Helper()
	agents := &agents{reader}
	listener, ip := listen(t)
	server := &http.Server{
		Handler: agents, ErrorLog: log.New(io.Discard, "", 0), // of controllers that were killed while they asked
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, GetCertificate: agents.certificate},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return ip
}

// listen takes an address of this machine that isn't loopback, which Kubernetes wouldn't lead clients to.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip := address.(*net.IPNet).IP.To4()
		if ip == nil || !ip.IsGlobalUnicast() {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(agentapi.AgentPort)))
		if err == nil {
			return listener, ip.String()
		}
	}
	t.Fatalf("this machine has no IPv4 address other than loopback on which port %d is free", agentapi.AgentPort)
	return nil, ""
}

type agents struct{ reader client.Reader }

// podOf a name such as shop-0.shop-pods.test.svc.
func podOf(host string) (namespace, cluster, pod string) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 {
		return "", "", ""
	}
	return parts[2], strings.TrimSuffix(parts[1], "-pods"), parts[0]
}

func (a *agents) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	namespace, cluster, _ := podOf(hello.ServerName)
	secret := &corev1.Secret{}
	if err := a.reader.Get(hello.Context(), client.ObjectKey{Namespace: namespace, Name: cluster + "-instance"}, secret); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data["server.crt"], secret.Data["server.key"])
	return &pair, err
}

func (a *agents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, cluster, name := podOf(r.TLS.ServerName)
	pod, config := &corev1.Pod{}, readConfig(r.Context(), a.reader, namespace, cluster)
	if r.URL.Path != agentapi.RouteStatus || config == nil || a.reader.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(agentapi.Status{
		Pod: name, DataGeneration: pod.Annotations[annotationGeneration], SystemIdentifier: systemIdentifier,
		State: agentapi.StateRunning, Role: "primary", Timeline: 1, Version: fmt.Sprintf("%d.5", config.MajorVersion), ConfigHash: config.Hash(),
	})
}

// readConfig is what the agents of a cluster are told; nil: nothing yet.
func readConfig(ctx context.Context, reader client.Reader, namespace, cluster string) *agentapi.Config {
	configMap, config := &corev1.ConfigMap{}, &agentapi.Config{}
	if reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster + "-config"}, configMap) != nil ||
		json.Unmarshal([]byte(configMap.Data[filepath.Base(agentapi.ConfigFile)]), config) != nil {
		return nil
	}
	return config
}
