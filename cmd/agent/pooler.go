package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/api"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/pgbouncer"
	"howdah.dev/howdah/cmd/agent/internal/supervise"
	"howdah.dev/howdah/pkg/agentapi"
)

// poolerLead is how long a pooler still accepts connections once its pod is to end. Until then all nodes have learned that no client is led
// to it any more; nothing says when they have.
const poolerLead = 5 * time.Second

func poolerCommand() *cobra.Command {
	program := "pgbouncer"
	command := &cobra.Command{
		Use:   "pooler",
		Short: "Supervise PgBouncer (process 1 of a pooler's pod)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return runPooler(ctx, program)
		},
	}
	command.Flags().StringVar(&program, "program", program, "PgBouncer's program")
	return command
}

func runPooler(ctx context.Context, program string) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(48 << 20)
	log := slog.Default()
	client, err := kube.InCluster()
	if err != nil {
		return fmt.Errorf("the pooler learns from Kubernetes where the primary is: %w", err)
	}
	p := pgbouncer.New(pgbouncer.Options{
		Paths: pgbouncer.DefaultPaths(), Pod: os.Getenv("POD_NAME"), Command: []string{program}, API: client,
		AgentPort: agentapi.AgentPort, Lead: poolerLead, Log: log,
	})
	server := api.Server(api.PoolerHandler(p, pgbouncer.Metrics(p)), agentapi.PoolerTLSDir, log)
	defer server.Close()
	failed := make(chan error, 1)
	for _, port := range []int{agentapi.AgentPort, agentapi.MetricsPort} {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go serve(server, listener, failed)
	}
	return supervise.Until(ctx, failed, p.Run)
}
