package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/basebackup"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
)

// backupMemory is where the garbage collector of a backup's worker starts to work hard: its buffers take about half of
// it, and the pod's limit of 256 MiB is well above.
const backupMemory = 176 << 20

// memoryFor is backupMemory for buffers of this many bytes, in a pod with another limit; 0 is the usual one.
func memoryFor(buffers int64) int64 {
	if buffers <= 0 {
		return backupMemory
	}
	return buffers / 6 * 11
}

// softLimit is where the garbage collector starts to work hard in a pod that was given more than the usual memory for a long
// list of files.
func softLimit(usual int64) int64 {
	return max(usual, job.MemoryLimit(job.Cgroup)/16*11)
}

// shareMemory gives a part of the buffers' memory to the copies that encryption makes on the way to the store.
func shareMemory(task *agentapi.BackupJob) {
	if task.Repository.Encryption == nil {
		return
	}
	const usual = 96 << 20
	buffers := task.MemoryLimit
	if buffers <= 0 {
		buffers = usual
	}
	task.MemoryLimit, task.Repository.Encryption.Memory = buffers/3*2, buffers/8*3
}

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup", Short: "Copy one instance into its repository, in a Job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit(job.Run(cmd.Context(), job.PodFiles(), runBackup))
		},
	}
}

func runBackup(ctx context.Context, task agentapi.BackupJob) (agentapi.BackupResult, error) {
	debug.SetGCPercent(25) // most of the heap are buffers, which are no work to the collector
	debug.SetMemoryLimit(softLimit(memoryFor(task.MemoryLimit)))
	shareMemory(&task)
	store, err := openPatiently(ctx, task.Repository)
	if err != nil {
		return agentapi.BackupResult{}, job.Final(job.ReasonBadJob, errors.New(objstore.Explain(err)))
	}
	client, err := kube.InCluster()
	if err != nil {
		slog.Warn("progress can't be reported", "error", err)
	}
	reporter := job.NewReporter(ctx, client, task.Object)
	defer reporter.Close()
	volume := generation.Volume(agentapi.VolumeDir)
	worker := basebackup.Worker{
		Volume: volume, Store: store, Report: reporter.Report, Memory: job.MemoryLimit(job.Cgroup), Tool: "howdah " + version,
		Connect: basebackup.Dialer(task.Host, task.Address, agentapi.ClientTLSDir, majorOn(volume)),
	}
	slog.Info("backing up", "backup", task.BackupID, "lineage", task.Lineage, "host", task.Host, "address", task.Address)
	result, err := worker.Run(ctx, task)
	if err == nil {
		slog.Info("backed up", "backup", task.BackupID, "incremental", result.Incremental, "parent", result.Parent, "why", result.Why,
			"logicalBytes", result.LogicalBytes, "copiedBytes", result.CopiedBytes, "storedBytes", result.StoredBytes, "stopLSN", result.StopLSN)
	}
	return result, err
}

// majorOn is the major version of the data on a volume; 0 where none are adopted, which the worker says.
func majorOn(volume generation.Volume) int {
	current, err := volume.Current()
	if err != nil {
		return 0
	}
	adopted, err := volume.Read(current)
	if err != nil {
		return 0
	}
	return adopted.MajorVersion
}
