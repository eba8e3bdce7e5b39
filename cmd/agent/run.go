package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/api"
	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/endpoint"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/metrics"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/supervise"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
)

// gracePeriod is what the db-controller gives to the pods of a cluster by default.
const gracePeriod = time.Duration(agentapi.StopTimeoutSeconds) * time.Second

type runOptions struct {
	grace time.Duration
}

func runCommand() *cobra.Command {
	o := runOptions{}
	command := &cobra.Command{
		Use:   "run",
		Short: "Supervise PostgreSQL (process 1 of a database pod)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return run(ctx, o)
		},
	}
	command.Flags().DurationVar(&o.grace, "grace-period", gracePeriod,
		"the pod's termination grace period from SIGTERM on, before whose end PostgreSQL is stopped at once; 0: it takes as long as it takes")
	return command
}

func run(ctx context.Context, o runOptions) error {
	// Small in every pod: collect early, and hard before the WAL in flight adds up.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(96 << 20)
	log := slog.Default()
	if err := postmaster.AdoptOrphans(); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	go postmaster.Reap(ctx)
	datagrams, err := net.ListenPacket("udp", fmt.Sprintf(":%d", agentapi.AgentPort))
	if err != nil {
		return err
	}
	defer datagrams.Close()

	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx)) // to the end of the server
	defer stopPublishing()
	supervisor := supervise.New(supervise.Options{
		Paths: supervise.DefaultPaths(), Pod: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"), Address: os.Getenv("POD_IP"),
		Generation: podGeneration(), Grace: o.grace, ArchiveLimits: archive.DefaultLimits(), Log: log,
		OpenStore: openStore,
		Publish: func(config agentapi.Config, leads func() bool) supervise.Publisher {
			return publish(publishing, config, leads, log)
		},
		Watchdog: watchdog.New(agentapi.AgentPath, log), Kubernetes: kubernetes(),
		Datagrams: datagrams, WordPort: agentapi.AgentPort,
	})
	server := api.Server(api.Handler(supervisor, metrics.Handler(supervisor, agentapi.QueriesFile, log)), agentapi.TLSDir, log)
	defer server.Close()
	failed := make(chan error, 1)
	for _, port := range []int{agentapi.AgentPort, agentapi.MetricsPort} {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go serve(server, listener, failed)
	}
	return supervise.Until(ctx, failed, supervisor.Run)
}

func serve(server *http.Server, listener net.Listener, failed chan<- error) {
	err := server.Serve(tls.NewListener(listener, server.TLSConfig))
	if !errors.Is(err, http.ErrServerClosed) {
		select {
		case failed <- err:
		default:
		}
	}
}

// kubernetes is the API server for the election; nil outside Kubernetes.
func kubernetes() member.API {
	client, err := kube.InCluster()
	if err != nil {
		return nil
	}
	return client
}

// public tells clients of this instance, by the EndpointSlice and by the pod's labels.
type public struct {
	*endpoint.Publisher
	label *endpoint.Role
}

// Role writes the labels.
func (p public) Role(role string, delayed bool) {
	if p.label != nil {
		p.label.Set(endpoint.Labels{Role: role, Delayed: delayed})
	}
}

// publish makes the publisher of the cluster. Outside Kubernetes there is nobody to tell.
func publish(ctx context.Context, config agentapi.Config, leads func() bool, log *slog.Logger) supervise.Publisher {
	client, err := kube.InCluster()
	if err != nil || config.EndpointSlice == "" {
		log.Warn("no EndpointSlice is written", "slice", config.EndpointSlice, "error", err)
		return public{}
	}
	pod := endpoint.Pod{
		Namespace: config.Namespace, Name: os.Getenv("POD_NAME"), UID: os.Getenv("POD_UID"),
		Node: os.Getenv("NODE_NAME"), IP: os.Getenv("POD_IP"), DataGeneration: config.DataGeneration,
	}
	p := public{endpoint.New(client, pod, config.EndpointSlice, agentapi.PostgresPort, leads, log), endpoint.NewRole(client, pod, log)}
	go p.Publisher.Run(ctx)
	go p.label.Run(ctx)
	return p
}

// storeOutage is how long one operation of the archive's store is repeated before the outage is shown.
const storeOutage = 5 * time.Second

func openStore(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	return open.With(ctx, config, retry.Policy{MaxElapsed: storeOutage})
}
