package main

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/clonejob"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/standbyjob"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make the first data generation of a cluster (in an init Job)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			worker := initialize.Worker{
				Volume: agentapi.VolumeDir, Run: postgres.Exec, Now: time.Now, Reports: initialize.InCluster, Secrets: agentapi.SecretsDir,
				ExtensionsDir: agentapi.ExtensionsDir, Clone: clonejob.Make, Standby: standBy,
			}
			return exit(job.Run(cmd.Context(), job.PodFiles(), worker.Init))
		},
	}
}

// standBy follows the archive of another cluster, for years if need be.
func standBy(ctx context.Context, wanted initialize.Standby) (string, error) {
	memory := job.MemoryLimit(job.Cgroup)
	debug.SetGCPercent(50) // the server and the page cache need the rest more
	debug.SetMemoryLimit(restoreMemory(memory))
	if err := postmaster.AdoptOrphans(); err != nil {
		return "", err
	}
	go postmaster.Reap(ctx)
	wanted.Task.MemoryLimit = backup.BuffersFor(memory, wanted.Task.MemoryLimit)
	return standbyjob.New(standbyjob.Options{
		SocketDir: agentapi.SocketDir, RunDir: agentapi.RunDir, WAL: agentapi.WALPath, OpenStore: openStore, OpenPatiently: openPatiently,
		Memory: memory, Log: slog.Default(),
	})(ctx, wanted)
}
