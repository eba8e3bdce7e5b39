package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/restorejob"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/postgres"
)

func restoreCommand() *cobra.Command {
	root := ""
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Fetch a backup and replay WAL into a new data generation (in a restore Job)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The page cache needs the rest of the pod's memory more.
			debug.SetGCPercent(50)
			debug.SetMemoryLimit(restoreMemory(job.MemoryLimit(job.Cgroup)))
			files := job.PodFiles()
			files.Job, files.TerminationLog = filepath.Join(root, files.Job), filepath.Join(root, files.TerminationLog)
			return exit(job.Run(cmd.Context(), files, func(ctx context.Context, task agentapi.RestoreJob) (agentapi.RestoreResult, error) {
				return restore(ctx, root, task)
			}))
		},
	}
	cmd.Flags().StringVar(&root, "root", "/", "where the folders of the pod are, to measure a restore outside of one")
	_ = cmd.Flags().MarkHidden("root") // fails for a flag that isn't there
	return cmd
}

// restoreMemory is where the garbage collector of a restore's worker starts to work hard, in a pod with that limit; 0 is none.
func restoreMemory(limit int64) int64 {
	const usual = 208 << 20
	if share := limit / 16 * 11; limit > 0 && limit < 256<<20 || share > usual {
		return share
	}
	return usual
}

func restore(ctx context.Context, root string, task agentapi.RestoreJob) (agentapi.RestoreResult, error) {
	if err := postmaster.AdoptOrphans(); err != nil {
		return agentapi.RestoreResult{}, err
	}
	go postmaster.Reap(ctx)
	client, err := kube.InCluster()
	if err != nil && !errors.Is(err, kube.ErrOutside) {
		return agentapi.RestoreResult{}, err
	}
	reporter := job.NewReporter(ctx, client, task.Object)
	defer reporter.Close()
	worker := restorejob.Worker{
		Volume: generation.Volume(filepath.Join(root, agentapi.VolumeDir)), SocketDir: filepath.Join(root, agentapi.SocketDir),
		RunDir: filepath.Join(root, agentapi.RunDir), WAL: filepath.Join(root, agentapi.WALPath),
		Run: postgres.Exec, Now: time.Now, OpenStore: openPatiently, Report: reporter.Report, Log: slog.Default(),
		Memory: job.MemoryLimit(job.Cgroup), ExtensionsDir: filepath.Join(root, agentapi.ExtensionsDir),
	}
	task.MemoryLimit = backup.BuffersFor(worker.Memory, task.MemoryLimit)
	return worker.Restore(ctx, task)
}

// jobOutage is how long the worker of a Job sits out an outage of the store. After that its Job tries again, from the start.
const jobOutage = 15 * time.Minute

func openPatiently(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	return open.With(ctx, config, retry.Policy{MaxElapsed: jobOutage})
}
