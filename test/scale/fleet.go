package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/agentapi"
)

// fleet plays the agents of all clusters: one server on all addresses of this network namespace, with the certificate of the cluster that
// is meant.
type fleet struct {
	reader client.Reader

	mu sync.Mutex
	// deaf are pods whose agents answer nobody.
	deaf map[client.ObjectKey]bool
	// asked are the pods whose agent was asked since it was reset.
	asked map[client.ObjectKey]bool
	tls   map[client.ObjectKey]*tls.Config
	// led is where there was a switchover, and switched its last one.
	led      map[client.ObjectKey]string
	switched map[client.ObjectKey]agentapi.SwitchoverRequest
	// moved is told of a cluster that has another primary.
	moved func(cluster client.ObjectKey)
}

func newFleet(reader client.Reader) *fleet {
	return &fleet{
		reader: reader, deaf: map[client.ObjectKey]bool{}, asked: map[client.ObjectKey]bool{}, tls: map[client.ObjectKey]*tls.Config{},
		led: map[client.ObjectKey]string{}, switched: map[client.ObjectKey]agentapi.SwitchoverRequest{},
	}
}

// start serves until the context ends.
func (f *fleet) start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", agentapi.AgentPort))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.RouteStatus, f.status)
	mux.HandleFunc("POST "+agentapi.RouteSwitchover, f.switchover)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: f.tlsOf},
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("scale: the agents' server has ended:", err)
		}
	}()
	return nil
}

// clusterOf an agent's host name, such as shop-0.shop-pods.demo.svc.
func clusterOf(host string) (client.ObjectKey, error) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 || strings.LastIndex(parts[0], "-") < 0 {
		return client.ObjectKey{}, fmt.Errorf("no agent is called %q", host)
	}
	return client.ObjectKey{Namespace: parts[2], Name: parts[0][:strings.LastIndex(parts[0], "-")]}, nil
}

func (f *fleet) tlsOf(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	cluster, err := clusterOf(hello.ServerName)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	known := f.tls[cluster]
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	if err := f.reader.Get(hello.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-instance"}, secret); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data["server.crt"], secret.Data["server.key"])
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(secret.Data["ca.crt"])
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tls[cluster] = config
	return config, nil
}

// status answers as an agent whose PostgreSQL runs as it is told to.
func (f *fleet) status(w http.ResponseWriter, r *http.Request) {
	cluster, err := clusterOf(r.TLS.ServerName)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	pod, _, _ := strings.Cut(r.TLS.ServerName, ".")
	f.mu.Lock()
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: pod}
	f.asked[key] = true
	deaf := f.deaf[key]
	f.mu.Unlock()
	if deaf {
		<-r.Context().Done()
		return
	}
	config, err := f.config(r.Context(), cluster)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	status := agentapi.Status{
		Pod: pod, DataGeneration: config.DataGeneration, SystemIdentifier: "7000000000000000001", State: agentapi.StateRunning,
		Role: "primary", Timeline: 1, LSN: uint64(time.Now().Unix()), Version: release, ConfigHash: config.Hash(),
		Volume: &agentapi.VolumeStatus{Bytes: 1 << 30, UsedBytes: 1 << 28}, Disk: &agentapi.DiskStatus{SyncSeconds: 0.01}, StartedAt: time.Unix(1e9, 0),
	}
	if config.Declared != nil {
		status.Declared = &agentapi.DeclaredStatus{Hash: config.Declared.Hash()}
	}
	if config.Instances > 1 {
		f.elected(cluster, config, &status)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status)
}

// elected adds what an agent says that elects.
func (f *fleet) elected(cluster client.ObjectKey, config *agentapi.Config, status *agentapi.Status) {
	leader := f.leader(cluster)
	status.Role, status.Election = roleOf(status.Pod, leader), &agentapi.ElectionStatus{Leader: leader, Term: 1}
	for ordinal := range config.Instances {
		if name := podOf(cluster, ordinal).Name; name != leader {
			status.Election.Members = append(status.Election.Members, name)
		}
	}
	if status.Pod != leader {
		status.Replication = &agentapi.ReplicationStatus{Streaming: true}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if switched, is := f.switched[cluster]; is {
		status.Election.Switchover = &agentapi.SwitchoverStatus{Token: switched.Token, State: agentapi.SwitchoverDone}
	}
}

// leader of a cluster.
func (f *fleet) leader(cluster client.ObjectKey) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.led[cluster], podOf(cluster, 0).Name)
}

// switchover is done at once.
func (f *fleet) switchover(w http.ResponseWriter, r *http.Request) {
	cluster, err := clusterOf(r.TLS.ServerName)
	request := agentapi.SwitchoverRequest{}
	if err != nil || json.NewDecoder(r.Body).Decode(&request) != nil {
		http.Error(w, "not a switchover", http.StatusBadRequest)
		return
	}
	to := request.To
	if to == "" && f.leader(cluster) == podOf(cluster, 0).Name {
		to = podOf(cluster, 1).Name
	}
	f.mu.Lock()
	f.switched[cluster] = request
	f.mu.Unlock()
	f.lead(cluster, to)
}

// lead has another instance be the primary of a cluster.
func (f *fleet) lead(cluster client.ObjectKey, pod string) {
	f.mu.Lock()
	f.led[cluster] = pod
	f.mu.Unlock()
	f.moved(cluster)
}

func (f *fleet) config(ctx context.Context, cluster client.ObjectKey) (*agentapi.Config, error) {
	return readConfig(ctx, f.reader, cluster)
}

// readConfig is what the agents of a cluster are told.
func readConfig(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (*agentapi.Config, error) {
	object, config := &corev1.ConfigMap{}, &agentapi.Config{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-config"}, object); err != nil {
		return nil, err
	}
	return config, json.Unmarshal([]byte(object.Data["agent.json"]), config)
}

func (f *fleet) forgetAsked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.asked)
}

func (f *fleet) countAsked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fleet) deafenPods(pods []client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pod := range pods {
		f.deaf[pod] = true
	}
}

func (f *fleet) allHear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.deaf)
}
