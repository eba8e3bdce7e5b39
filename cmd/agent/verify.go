package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/verifyjob"
	"howdah.dev/howdah/pkg/agentapi"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Read every object of a backup and check it against its checksum, in a Job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetMemoryLimit(softLimit(backupMemory))
			return exit(job.Run(cmd.Context(), job.PodFiles(), runVerify))
		},
	}
}

func runVerify(ctx context.Context, task agentapi.VerifyJob) (agentapi.VerifyResult, error) {
	store, err := openPatiently(ctx, task.Repository)
	if err != nil {
		return agentapi.VerifyResult{}, job.StoreFailure(err)
	}
	client, err := kube.InCluster()
	if err != nil && !errors.Is(err, kube.ErrOutside) {
		slog.Warn("progress can't be reported", "error", err)
	}
	reporter := job.NewReporter(ctx, client, task.Object)
	defer reporter.Close()
	worker := verifyjob.Worker{Store: store, Memory: job.MemoryLimit(job.Cgroup), Report: reporter.Report}
	slog.Info("verifying", "backup", task.BackupID, "lineage", task.Lineage, "maxBytesPerSecond", task.MaxBytesPerSecond)
	result, err := worker.Run(ctx, task)
	if err == nil {
		slog.Info("verified", "backup", task.BackupID, "objects", result.Objects, "checkedBytes", result.CheckedBytes, "wrongObjects", result.WrongObjects)
	}
	return result, err
}
