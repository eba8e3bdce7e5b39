package initialize

import (
	"context"
	"errors"
	"os"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Clone is a data directory that is to be filled with the data of another cluster. Its folder has been begun.
type Clone struct {
	Task           agentapi.CloneJob
	Volume         generation.Volume
	DataGeneration string
	MajorVersion   int
	BinDir         string
	Run            postgres.Run
	// Extensions has the parameters by which the server finds the images of extensions.
	Extensions []postgres.Parameter
	// Scratch is a folder for files that hold no data, and Secrets that of the mounted Secrets.
	Scratch, Secrets string
	Report           func(job.Progress)
}

// clone copies the data of another cluster. What it writes is made durable with the data generation.
func (w Worker) clone(ctx context.Context, task agentapi.InitJob, binDir string) error {
	if w.Clone == nil {
		return job.Final(job.ReasonBadJob, errors.New("this program makes no clones"))
	}
	reports, err := w.Reports(ctx, task.Clone.Object)
	if err != nil {
		return err
	}
	defer reports.Close()
	dir, err := os.MkdirTemp("", "clone")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	found, err := w.findExtensions(task.MajorVersion)
	if err != nil {
		return err
	}
	return w.Clone(ctx, Clone{
		Task: *task.Clone, Volume: w.Volume, DataGeneration: task.DataGeneration, MajorVersion: task.MajorVersion, BinDir: binDir, Run: w.Run,
		Extensions: found.Parameters(), Scratch: dir, Secrets: w.Secrets, Report: reports.Progress,
	})
}
