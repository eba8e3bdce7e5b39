// Package initialize makes the first data generation of a cluster: `agent init`.
package initialize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ReasonNoPrograms is the reason of a Job whose image has another PostgreSQL than it should.
const ReasonNoPrograms = "UnknownVersion"

// ReasonBadImage is the reason of a Job that has the image of an extension with nothing in it.
const ReasonBadImage = "BadImage"

// Result is what an init Job hands over.
type Result struct {
	DataGeneration   string `json:"dataGeneration"`
	SystemIdentifier string `json:"systemIdentifier"`
	MajorVersion     int    `json:"majorVersion"`
}

// Worker makes generations on a volume.
type Worker struct {
	Volume generation.Volume
	Run    postgres.Run
	Now    func() time.Time
	// SQLPath says where a file of SQL is; nil: where a Job has it.
	SQLPath func(number int, file agentapi.SQLFile) string
	// Reports opens what a Job that imports or clones reports to. Secrets is the folder of its Secrets.
	Reports func(ctx context.Context, object agentapi.Object) (Reports, error)
	Secrets string
	// Clone fills a data directory with the data of another cluster; see clonejob.
	Clone func(context.Context, Clone) error
	// Standby makes a data directory follow an archive until it is promoted, and says what it was made from; see standbyjob.
	Standby func(context.Context, Standby) (from string, err error)
	// Pause of an online import between two looks at its source, and ReleaseTime for which it tries to drop there what it has created; 0: the usual ones.
	Pause, ReleaseTime time.Duration
	// ExtensionsDir has the images of extensions that the cluster has.
	ExtensionsDir string
}

// Init makes the generation that the job asks for and adopts it. One that is whole is only adopted.
func (w Worker) Init(ctx context.Context, task agentapi.InitJob) (Result, error) {
	if task.Import != nil && task.Import.Online != nil && task.Import.Online.Release {
		return Result{}, w.onlyRelease(ctx, task)
	}
	if task.DataGeneration == "" || task.MajorVersion == 0 {
		return Result{}, job.Final(job.ReasonBadJob, errors.New("the job names no data generation or no major version"))
	}
	g, err := w.Volume.Read(task.DataGeneration)
	if err != nil {
		if g, err = w.create(ctx, task); err != nil {
			return Result{}, err
		}
	}
	if g.MajorVersion != task.MajorVersion {
		return Result{}, job.Final(job.ReasonFailed, fmt.Errorf("data generation %s exists already and is from PostgreSQL %d, not %d", g.ID, g.MajorVersion, task.MajorVersion))
	}
	if err := w.Volume.Adopt(g.ID); err != nil {
		return Result{}, fmt.Errorf("adopt data generation %s: %w", g.ID, err)
	}
	if task.Import != nil && task.Import.Online != nil {
		if err := w.releaseSource(ctx, task); err != nil {
			return Result{}, err
		}
	}
	return Result{DataGeneration: g.ID, SystemIdentifier: g.SystemIdentifier, MajorVersion: g.MajorVersion}, nil
}

func (w Worker) create(ctx context.Context, task agentapi.InitJob) (generation.Generation, error) {
	binDir, err := postgres.BinDir(ctx, w.Run, task.MajorVersion)
	if err != nil {
		return generation.Generation{}, job.Final(ReasonNoPrograms, err)
	}
	if task.Import != nil && task.Import.Online != nil {
		return w.createOnline(ctx, task, binDir)
	}
	if task.Standby != nil {
		return w.createStandby(ctx, task, binDir)
	}
	pgdata, err := w.Volume.Begin(task.DataGeneration)
	if err != nil {
		return generation.Generation{}, err
	}
	g := generation.Generation{ID: task.DataGeneration, MajorVersion: task.MajorVersion, Origin: generation.Initdb}
	if task.Clone != nil {
		g.Origin, g.From = generation.Cluster, task.Clone.Cluster
		if err := w.clone(ctx, task, binDir); err != nil {
			return generation.Generation{}, err
		}
		return w.complete(ctx, g, binDir)
	}
	out, err := w.initdb(ctx, task, binDir, pgdata)
	if err != nil {
		return generation.Generation{}, err
	}
	slog.Debug("initdb has run", "output", string(out))
	if len(task.SQL) > 0 {
		if err := w.runSQL(ctx, task, binDir, pgdata); err != nil {
			return generation.Generation{}, err
		}
	}
	if task.Import != nil {
		if _, err := w.runImport(ctx, task, binDir, pgdata); err != nil {
			return generation.Generation{}, err
		}
		g.From = task.Import.Source.Host
	}
	return w.complete(ctx, g, binDir)
}

// initdb fills the data directory of the task's generation, with its WAL where that belongs.
func (w Worker) initdb(ctx context.Context, task agentapi.InitJob, binDir, pgdata string) ([]byte, error) {
	wal, err := generation.WAL(w.Volume).New(task.DataGeneration)
	if err != nil {
		return nil, err
	}
	out, err := Initdb(ctx, w.Run, binDir, task.MajorVersion, InWAL(wal, Arguments(task.MajorVersion, pgdata, task.Initdb))...)
	if err != nil {
		return nil, explain(task.Initdb, err)
	}
	return out, nil
}

// complete makes the generation whole.
func (w Worker) complete(ctx context.Context, g generation.Generation, binDir string) (generation.Generation, error) {
	control, err := postgres.ReadControlData(ctx, w.Run, binDir, w.Volume.PGData(g.ID))
	if err != nil {
		return generation.Generation{}, err
	}
	g.SystemIdentifier, g.CreatedAt = strconv.FormatUint(control.SystemIdentifier, 10), w.Now().UTC()
	return g, w.Volume.Complete(g)
}
