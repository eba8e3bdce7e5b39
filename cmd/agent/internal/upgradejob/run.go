// Package upgradejob is the worker of an Upgrade's Jobs: `agent upgrade run` writes a new data generation of a higher major
// version beside the old one on a locked volume, with pg_upgrade; `agent upgrade check` finds out on a copy of the schema
// whether that would work, while the database accepts connections.
package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Reasons that the workers end with.
const (
	ReasonNoSpace       = "InsufficientSpace"
	ReasonUpgradeFailed = "UpgradeFailed"
	ReasonBadImage      = "BadImage"
	ReasonNoWayBack     = "NoWayBack"
	// mostJobs are how many databases pg_upgrade works on at a time: each takes memory for its schema.
	mostJobs = 8
)

// Worker does the work of upgrade Jobs.
type Worker struct {
	Volume  generation.Volume
	OldRoot string // where the old image is mounted
	Scratch string // an empty folder for wrappers, sockets and scratch databases; its path must be short
	// PreloadLibraries is shared_preload_libraries of the servers that it starts, and OutputPlugins output_plugin_libraries of those that have
	// logical slots.
	PreloadLibraries, OutputPlugins string
	Run                             postgres.Run
	Now                             func() time.Time
	Report                          func(job.Progress)
	// ExtensionsDir has the images of extensions that the new version gets.
	ExtensionsDir string
}

func (w Worker) binDir(ctx context.Context, major int) (string, error) {
	dir, err := postgres.BinDir(ctx, w.Run, major)
	if err != nil {
		return "", job.Final(ReasonBadImage, err)
	}
	return dir, nil
}

// Upgrade writes the new generation. One that is whole is reported again.
func (w Worker) Upgrade(ctx context.Context, task agentapi.UpgradeJob) (agentapi.UpgradeResult, error) {
	made, err := w.Volume.Read(task.ToGeneration)
	if err != nil {
		if made, err = w.make(ctx, task); err != nil {
			return agentapi.UpgradeResult{}, err
		}
	}
	previous, err := w.used(task.FromGeneration)
	if err != nil {
		previous = 0 // not known, which is no reason to fail
	}
	return agentapi.UpgradeResult{
		DataGeneration: made.ID, SystemIdentifier: made.SystemIdentifier, MajorVersion: made.MajorVersion, PreviousBytes: previous,
	}, nil
}

// used are the bytes of a data generation on all volumes.
func (w Worker) used(id string) (int64, error) {
	data, err := w.Volume.Used(id)
	wal, errWAL := generation.WAL(w.Volume).Used(id)
	return data + wal, errors.Join(err, errWAL)
}

func (w Worker) make(ctx context.Context, task agentapi.UpgradeJob) (generation.Generation, error) {
	none := generation.Generation{}
	w.Report(job.Progress{Phase: "Preparing"})
	old, err := w.Volume.Resolve(task.FromGeneration)
	if err != nil {
		return none, job.Final(ReasonUpgradeFailed, err)
	}
	task.FromGeneration = old.ID // a clone of it, where a former replica is the primary
	if old.MajorVersion != task.FromVersion {
		return none, job.Final(ReasonUpgradeFailed, fmt.Errorf("data generation %s is from PostgreSQL %d, not %d", old.ID, old.MajorVersion, task.FromVersion))
	}
	lock, err := w.Volume.Lock(old.ID)
	if err != nil {
		return none, err
	}
	defer lock.Close()
	if err := errors.Join(w.refuseGivenUp(old.ID), refusePrepared(w.Volume.PGData(old.ID))); err != nil {
		return none, err
	}
	found, err := w.programs(ctx, task.FromVersion, task.ToVersion)
	if err != nil {
		return none, job.Final(ReasonBadImage, err)
	}
	if err := w.asInspected(ctx, task, found); err != nil {
		return none, err
	}
	pgdata, err := w.Volume.Begin(task.ToGeneration)
	if err != nil {
		return none, err
	}
	if err := w.fill(ctx, task, found, pgdata); err != nil {
		return none, errors.Join(err, w.Volume.Remove(task.ToGeneration))
	}
	return w.complete(ctx, task, found, pgdata)
}

// refusePrepared refuses data with prepared transactions, which pg_upgrade does as well, but only after it has created a database. The check has found
// none; one that was prepared since then is in a file since the checkpoint of the shutdown.
func refusePrepared(pgdata string) error {
	files, err := os.ReadDir(filepath.Join(pgdata, "pg_twophase"))
	if err != nil || len(files) == 0 {
		return err
	}
	return job.Final(ReasonUpgradeFailed, fmt.Errorf("%d transactions were prepared after the check, and would be lost: "+
		"COMMIT PREPARED or ROLLBACK PREPARED those in pg_prepared_xacts, stop what prepares others meanwhile, and create another Upgrade", len(files)))
}

// fill makes pgdata an upgraded copy of the old generation.
func (w Worker) fill(ctx context.Context, task agentapi.UpgradeJob, found programs, pgdata string) error {
	oldData := w.Volume.PGData(task.FromGeneration)
	control, err := w.settled(ctx, found, oldData)
	if err != nil {
		return err
	}
	mode, err := w.modeFor(task)
	if err != nil {
		return err
	}
	if err := w.checkSpace(oldData, mode); err != nil {
		return err
	}
	wal, err := generation.WAL(w.Volume).New(task.ToGeneration)
	if err != nil {
		return err
	}
	if err := w.initdb(ctx, found, task.ToVersion, pgdata, wal, control); err != nil {
		return err
	}
	if err := w.giveUp(ctx, task, found); err != nil { // last: what fails before leaves the old data as it was
		return err
	}
	options := []string{"--jobs=" + strconv.Itoa(min(mostJobs, runtime.GOMAXPROCS(0))), "--no-sync"}
	if mode != modeCopy { // the default, and no option of older versions
		options = append(options, mode)
	}
	return w.pgUpgrade(ctx, phaseUpgrading, found, oldData, pgdata, options...)
}

// settled makes sure that the old generation is shut down cleanly: a former attempt may have been killed while
// pg_upgrade ran a server on it.
func (w Worker) settled(ctx context.Context, found programs, oldData string) (postgres.ControlData, error) {
	control, err := postgres.ReadControlData(ctx, w.Run, found.oldBin, oldData)
	if err != nil || control.State.Clean() {
		return control, err
	}
	w.Report(job.Progress{Phase: "Recovering", Message: "the old data was not shut down cleanly; it is recovered first"})
	if err := w.startAndStop(ctx, found.oldBin, oldData); err != nil {
		return control, fmt.Errorf("recover the old data: %w", err)
	}
	return postgres.ReadControlData(ctx, w.Run, found.oldBin, oldData)
}

// startAndStop recovers the only copy of the data, which is on disk before pg_control says that it is shut down.
func (w Worker) startAndStop(ctx context.Context, binDir, dataDir string) error {
	stop, err := w.start(ctx, binDir, dataDir, durable)
	if err != nil {
		return err
	}
	return stop(ctx)
}

// start runs a server that only this pod can reach, until stop is called.
func (w Worker) start(ctx context.Context, binDir, dataDir, more string) (stop func(context.Context) error, err error) {
	ctl := filepath.Join(binDir, "pg_ctl")
	needed, err := w.serverOptions(dataDir)
	if err != nil {
		return nil, err
	}
	options := more + needed + " -c listen_addresses='' -c autovacuum=off -c unix_socket_directories=" + w.Scratch
	log := filepath.Join(w.Scratch, "server.log")
	if _, err := w.Run(ctx, ctl, "-D", dataDir, "-w", "-t", "600", "-l", log, "-o", options, "start"); err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(log))
	}
	return func(ctx context.Context) error {
		_, err := w.Run(ctx, ctl, "-D", dataDir, "-w", "-t", "600", "-m", "fast", "stop")
		return err
	}, nil
}

// initdb makes the empty new database like the old one, for pg_upgrade insists on it. Its WAL goes to a folder of its own; empty: into the data directory.
func (w Worker) initdb(ctx context.Context, found programs, major int, pgdata, wal string, old postgres.ControlData) error {
	_, err := initialize.Initdb(ctx, w.Run, found.newBin, major, initialize.InWAL(wal, initdbArguments(major, pgdata, old))...)
	return err
}

func initdbArguments(major int, pgdata string, old postgres.ControlData) []string {
	// From 16 on pg_upgrade itself brings encoding and locale of the old template databases over.
	args := append(initialize.Arguments(major, pgdata, agentapi.Initdb{WALSegmentMiB: int64(old.SegSize >> 20)}), "--no-sync")
	if old.Checksums() {
		return args
	}
	for i, arg := range args {
		if arg == "--data-checksums" && major >= 18 {
			args[i] = "--no-data-checksums" // 18 turned the default on
		} else if arg == "--data-checksums" {
			return append(args[:i], args[i+1:]...)
		}
	}
	return args
}

// complete reads what the new generation is, and makes it whole. Extensions and statistics are left to the server that
// will run it, so that they cost no downtime.
func (w Worker) complete(ctx context.Context, task agentapi.UpgradeJob, found programs, pgdata string) (generation.Generation, error) {
	w.Report(job.Progress{Phase: "Syncing"})
	control, err := postgres.ReadControlData(ctx, w.Run, found.newBin, pgdata)
	if err != nil {
		return generation.Generation{}, err
	}
	made := generation.Generation{
		ID: task.ToGeneration, SystemIdentifier: strconv.FormatUint(control.SystemIdentifier, 10),
		MajorVersion: task.ToVersion, Origin: generation.Upgrade, From: task.FromGeneration, CreatedAt: w.Now().UTC(),
		Maintenance: []string{generation.MaintainExtensions, generation.MaintainStatistics},
	}
	return made, w.Volume.Complete(made)
}

// writesBeside is what pg_upgrade and its servers write beside catalogs: WAL, dumps and logs.
const writesBeside = 128 << 20

// checkSpace refuses what would fill the volume, before anything is written.
func (w Worker) checkSpace(oldData, mode string) error {
	if free, has, err := generation.WAL(w.Volume).Space(); err != nil {
		return err
	} else if has && free < writesBeside {
		return job.Final(ReasonNoSpace, fmt.Errorf("the WAL volume has %d MiB free, and the upgrade needs %d MiB there: raise spec.storage.wal.size", free>>20, int64(writesBeside)>>20))
	}
	need, free, err := space(oldData)
	if err != nil {
		return err
	}
	what := "a copy of the data"
	if mode == modeClone || mode == modeLink {
		what = "the new data, without tables and indexes,"
		if need, err = catalogs(oldData); err != nil {
			return err
		}
		need += writesBeside
	}
	if need += need / 20; need > free {
		return job.Final(ReasonNoSpace, fmt.Errorf(
			"the volume has %d MiB free, and %s needs about %d MiB; make room or take a larger volume", free>>20, what, need>>20))
	}
	return nil
}
