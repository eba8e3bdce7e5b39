package initialize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/importjob"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

// Reports are where an import says how far it is.
type Reports struct {
	Progress  func(job.Progress)
	Preflight func(context.Context, agentapi.ImportPreflight) error
	// Following says how an online import follows its source, and returns what is wanted of it now.
	Following func(context.Context, importjob.Following) (agentapi.ImportWanted, error)
	// Standby says how a standby follows its source, and returns what is wanted of it now.
	Standby func(context.Context, agentapi.StandbyReport) (agentapi.StandbyWanted, error)
	Close   func()
}

// Managers of what is written beside the progress, which has a manager of its own.
const (
	preflightManager = "howdah-worker-preflight"
	followingManager = "howdah-worker-following"
	standbyManager   = "howdah-worker-standby"
)

// InCluster reports into the ConfigMap of the Job.
func InCluster(ctx context.Context, object agentapi.Object) (Reports, error) {
	client, err := kube.InCluster()
	if err != nil {
		return Reports{}, err
	}
	reporter := job.NewConfigMapReporter(ctx, client, object, agentapi.ImportProgressKey)
	return Reports{
		Progress: reporter.Report, Close: reporter.Close,
		Preflight: func(ctx context.Context, found agentapi.ImportPreflight) error {
			return job.ApplyKey(ctx, client, object, preflightManager, agentapi.ImportPreflightKey, found)
		},
		Following: func(ctx context.Context, now importjob.Following) (wanted agentapi.ImportWanted, err error) {
			data, err := job.ExchangeKey(ctx, client, object, followingManager, agentapi.ImportOnlineKey, now)
			if text := data[agentapi.ImportWantedKey]; err == nil && text != "" {
				err = json.Unmarshal([]byte(text), &wanted)
			}
			return wanted, err
		},
		Standby: func(ctx context.Context, now agentapi.StandbyReport) (wanted agentapi.StandbyWanted, err error) {
			data, err := job.ExchangeKey(ctx, client, object, standbyManager, agentapi.StandbyKey, now)
			if text := data[agentapi.StandbyWantedKey]; err == nil && text != "" {
				err = json.Unmarshal([]byte(text), &wanted)
			}
			return wanted, err
		},
	}, nil
}

// runImport fills a server that nobody else reaches, and stops it. What it writes is made durable with the data generation.
func (w Worker) runImport(ctx context.Context, task agentapi.InitJob, binDir, pgdata string) (copied importjob.Copied, err error) {
	_, free, err := w.Volume.Space()
	if err != nil {
		return copied, err
	}
	_, freeForWAL, err := generation.WAL(w.Volume).On().Space()
	if err != nil {
		return copied, err
	}
	options := importjob.Settings(freeForWAL) + " -c maintenance_work_mem=" + maintenanceMemory(job.MemoryLimit(job.Cgroup), task.Import.Connections)
	err = w.withImport(ctx, task, func(importing importjob.Worker) error {
		importing.Free = free
		return w.serve(ctx, task, &importing, pgdata, binDir, options, func() (err error) {
			copied, err = importing.Run(ctx)
			return err
		})
	})
	return copied, err
}

// withImport opens what an import reports to.
func (w Worker) withImport(ctx context.Context, task agentapi.InitJob, do func(importjob.Worker) error) error {
	reports, err := w.Reports(ctx, task.Import.Object)
	if err != nil {
		return err
	}
	defer reports.Close()
	dir, err := os.MkdirTemp("", "import")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(importjob.Worker{
		Task: *task.Import, Major: task.MajorVersion, Target: local.Server{SocketDir: dir, Port: sqlPort},
		Scratch: dir, Secrets: w.Secrets, Report: reports.Progress, Preflighted: reports.Preflight, Following: reports.Following, Pause: w.Pause,
	})
}

// serve runs a server for an import.
func (w Worker) serve(ctx context.Context, task agentapi.InitJob, importing *importjob.Worker, pgdata, binDir, options string, do func() error) (err error) {
	if libraries := task.Import.PreloadLibraries; libraries != "" {
		options += " -c shared_preload_libraries='" + strings.ReplaceAll(libraries, "'", `'\''`) + "'"
	}
	found, err := w.findExtensions(task.MajorVersion)
	if err != nil {
		return err
	}
	importing.BinDir = binDir
	stop, err := w.start(ctx, binDir, pgdata, importing.Scratch, options+found.Options())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	return do()
}

// maintenanceMemory for each index that is built at the same time: a quarter of the pod's memory for all of them.
func maintenanceMemory(limit int64, connections int) string {
	const usual, most = 256, 1024
	if limit == 0 {
		return fmt.Sprintf("%dMB", usual)
	}
	return fmt.Sprintf("%dMB", min(max(limit>>20/4/int64(max(connections, 1)), 16), most))
}
