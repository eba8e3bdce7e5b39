package initialize

import (
	"context"
	"errors"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Standby is a data directory that is to follow an archive until it is promoted. What an earlier attempt has done is on the volume.
type Standby struct {
	Task           agentapi.StandbyJob
	Volume         generation.Volume
	DataGeneration string
	MajorVersion   int
	BinDir         string
	Run            postgres.Run
	// Extensions has the parameters by which the server finds the images of extensions.
	Extensions []postgres.Parameter
	// Progress of the backup that is restored first.
	Progress func(job.Progress)
	// Exchange says how the standby follows, and returns what is wanted of it now.
	Exchange func(context.Context, agentapi.StandbyReport) (agentapi.StandbyWanted, error)
}

// createStandby returns once the data was promoted. Until then, the data generation isn't whole, and nobody else starts a server on it.
func (w Worker) createStandby(ctx context.Context, task agentapi.InitJob, binDir string) (generation.Generation, error) {
	if w.Standby == nil {
		return generation.Generation{}, job.Final(job.ReasonBadJob, errors.New("this program follows no archive"))
	}
	reports, err := w.Reports(ctx, task.Standby.Object)
	if err != nil {
		return generation.Generation{}, err
	}
	defer reports.Close()
	found, err := w.findExtensions(task.MajorVersion)
	if err != nil {
		return generation.Generation{}, err
	}
	from, err := w.Standby(ctx, Standby{
		Task: *task.Standby, Volume: w.Volume, DataGeneration: task.DataGeneration, MajorVersion: task.MajorVersion, BinDir: binDir, Run: w.Run,
		Extensions: found.Parameters(), Progress: reports.Progress, Exchange: reports.Standby,
	})
	if err != nil {
		return generation.Generation{}, err
	}
	return w.complete(ctx, generation.Generation{ID: task.DataGeneration, MajorVersion: task.MajorVersion, Origin: generation.Standby, From: from}, binDir)
}
