// Package clonejob copies the data of another cluster, which continues running, and makes it data of its own: on a timeline that begins where the copy
// ends. It writes nothing on the source, and leaves nothing there.
package clonejob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/postgres"
)

// Reasons that a clone may end with.
const (
	ReasonSourceUnreachable = "SourceUnreachable"
	ReasonSourceChanged     = "SourceChanged"
	ReasonSourceMismatch    = "SourceMismatch"
	ReasonNoSpace           = "NoSpace"
)

// Phases of the progress.
const (
	phaseConnecting = "Connecting"
	phaseCopying    = "Copying"
	phaseReplaying  = "Replaying"
	phaseFinishing  = "Finishing"
)

// spareRoom is what a clone takes beside the databases: WAL, and what is written meanwhile.
const spareRoom = 128 << 20

// mostNames is how many names an error has at most.
const mostNames = 20

const stopTime = 10 * time.Minute // for the last checkpoint

// Worker makes one clone.
type Worker struct {
	initialize.Clone
	Patience Patience
}

// Patience is how often a source is asked that can't be cloned yet, and for how long.
type Patience struct {
	Every time.Duration
	// Away bounds the time in which no server answers, and Settle that in which a replica may lack what was created a moment ago.
	Away, Settle time.Duration
}

// Usual outlasts a failover, an update of all instances and the loss of a node. All that it holds up is the clone itself.
var Usual = Patience{Every: 5 * time.Second, Away: 30 * time.Minute, Settle: time.Minute}

// Make makes a clone, for initialize.Worker.
func Make(ctx context.Context, wanted initialize.Clone) error {
	return Worker{Clone: wanted, Patience: Usual}.Make(ctx)
}

// Make fills the data directory. What it writes is made durable with the data generation. After an error it begins anew.
func (w Worker) Make(ctx context.Context) error {
	s, err := w.open()
	if err != nil {
		return err
	}
	at, err := w.find(ctx, s)
	if err != nil {
		return err
	}
	slog.Info("cloning", "cluster", w.Task.Cluster, "address", at.address, "replica", at.replica, "bytes", at.bytes)
	copied := func(done, total int64) {
		w.Report(job.Progress{Phase: phaseCopying, DoneBytes: done, TotalBytes: max(done, total), Message: "From " + at.role() + " of PostgresCluster " + w.Task.Cluster + "."})
	}
	copied(0, at.bytes)
	pgdata := w.Volume.PGData(w.DataGeneration)
	wal, err := generation.WAL(w.Volume).New(w.DataGeneration)
	if err != nil {
		return err
	}
	if err := replicate.BaseBackup(ctx, w.BinDir, s.connInfo(at), pgdata, wal, copied); err != nil {
		return w.failed(err)
	}
	w.Report(job.Progress{Phase: phaseReplaying, DoneBytes: at.bytes, TotalBytes: at.bytes})
	if err := w.recover(ctx, pgdata); err != nil {
		return w.failed(err)
	}
	w.Report(job.Progress{Phase: phaseFinishing, DoneBytes: at.bytes, TotalBytes: at.bytes})
	return w.check(ctx, pgdata)
}

// fits says what of the source can't become this cluster.
func (w Worker) fits(at origin) error {
	switch again := "Delete this PostgresCluster and create it again, if that is what you want"; {
	case at.system != w.Task.SystemIdentifier:
		return job.Final(ReasonSourceChanged, fmt.Errorf("PostgresCluster %s has other data by now (system identifier %s, it was %s when the clone began). %s", w.Task.Cluster, at.system, w.Task.SystemIdentifier, again))
	case at.major != w.MajorVersion:
		return job.Final(ReasonSourceChanged, fmt.Errorf("PostgresCluster %s runs PostgreSQL %d, and this one has version %d. %s", w.Task.Cluster, at.major, w.MajorVersion, again))
	}
	_, free, err := w.Volume.Space()
	if needed := at.bytes + at.bytes/20 + spareRoom; err == nil && free < needed {
		return job.Final(ReasonNoSpace, fmt.Errorf("the data of PostgresCluster %s needs %d MiB, and %d MiB are free on the volume: set spec.storage.size to at least that of PostgresCluster %s",
			w.Task.Cluster, needed>>20, free>>20, w.Task.Cluster))
	}
	return err
}

// has says what the application would miss in the data.
func (w Worker) has(at origin) error {
	var lacks []string
	for _, wanted := range []struct {
		what, name, field string
		all               []string
	}{
		{"database", w.Task.Database, "spec.bootstrap.clone.database", at.databases}, {"role", w.Task.Owner, "spec.bootstrap.clone.owner", at.roles},
	} {
		if wanted.name == "" || slices.Contains(wanted.all, wanted.name) {
			continue
		}
		found := "it has no " + wanted.what + " that an application could use"
		if len(wanted.all) > 0 {
			found = "write one of these: " + strings.Join(wanted.all[:min(len(wanted.all), mostNames)], ", ")
		}
		lacks = append(lacks, fmt.Sprintf("PostgresCluster %s has no %s %s, which %s names: %s", w.Task.Cluster, wanted.what, wanted.name, wanted.field, found))
	}
	if len(lacks) == 0 {
		return nil
	}
	return job.Final(ReasonSourceMismatch, fmt.Errorf("%s. Delete this PostgresCluster and create it again with the names of that one", strings.Join(lacks, ". ")))
}

// failed says what a person can do about an error.
func (w Worker) failed(err error) error {
	if errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "No space left on device") {
		return job.Final(ReasonNoSpace, fmt.Errorf("the volume is full: set spec.storage.%s to at least that of PostgresCluster %s: %w", generation.WAL(w.Volume).FullSize(), w.Task.Cluster, err))
	}
	return err
}

// recover replays the WAL that came with the copy, on which the server begins a timeline, and shuts it down.
func (w Worker) recover(ctx context.Context, pgdata string) error {
	control, err := postgres.ReadControlData(ctx, w.Run, w.BinDir, pgdata)
	if err != nil {
		return err
	}
	// What ALTER SYSTEM has set at the source may be too much for this pod, and doesn't count here.
	auto, err := os.ReadFile(filepath.Join(pgdata, recovery.AutoConf))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	config := filepath.Join(w.Scratch, "recovery")
	parameters := postgres.MergeParameters(
		recovery.Parameters(control, config, w.Scratch, w.Task.PreloadLibraries), w.Extensions,
		recovery.OnWALVolume(w.Volume, control),
		// All WAL came with the copy. No archive is asked, for it would be that of the source.
		postgres.ParameterList(map[string]string{"restore_command": "false", "recovery_target_timeline": "current"}),
	)
	if err := recovery.WriteConfig(config, parameters); err != nil {
		return err
	}
	for _, name := range []string{"standby.signal", "postmaster.pid", "postmaster.opts", "backup_label.old", "tablespace_map.old", recovery.AutoConf} {
		if err := os.Remove(filepath.Join(pgdata, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(pgdata, "recovery.signal"), nil, 0o600); err != nil {
		return err
	}
	if err := w.serve(ctx, pgdata, filepath.Join(config, recovery.ConfFile)); err != nil {
		return err
	}
	if control, err = postgres.ReadControlData(ctx, w.Run, w.BinDir, pgdata); err != nil {
		return err
	}
	return tidy(pgdata, control.Timeline, recovery.WithoutSettings(string(auto)))
}

// serve runs the server until it is no standby any more.
func (w Worker) serve(ctx context.Context, pgdata, config string) error {
	lock, err := w.Volume.Lock(w.DataGeneration)
	if err != nil {
		return err
	}
	defer lock.Close()
	server, err := postmaster.Start(postmaster.Spec{BinDir: w.BinDir, PGData: pgdata, Lock: lock, Log: slog.Default(), Args: []string{"-c", "config_file=" + config}})
	if err != nil {
		return err
	}
	promoted := recovery.AwaitPromotion(ctx, server, pgdata)
	var errQuiet error
	if promoted {
		data := local.Server{SocketDir: w.Scratch, Port: recovery.Port} // what its subscriptions bring is for the cluster that was cloned
		_, errQuiet = logicalslot.GoBack(ctx, data, logicalslot.Back{Copy: true, Subscriptions: true}, slog.Default())
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	errStop := server.Stop(patience)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errQuiet != nil:
		return errQuiet
	case !promoted:
		return fmt.Errorf("PostgreSQL gave up replaying the WAL of the copy: %s", server.Complaint())
	case errStop != nil:
		return fmt.Errorf("PostgreSQL was not shut down cleanly after replay: %w", errStop)
	}
	return nil
}

// tidy leaves the data as a server that was stopped leaves it.
func tidy(pgdata string, timeline uint32, auto string) error {
	for _, name := range []string{"recovery.signal", "backup_label.old", "tablespace_map.old", "postmaster.opts"} {
		if err := os.Remove(filepath.Join(pgdata, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := recovery.NoteArchive(pgdata, timeline); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(pgdata, recovery.AutoConf), []byte(auto), 0o600)
}

// check looks at what has become of the copy.
func (w Worker) check(ctx context.Context, pgdata string) error {
	control, err := postgres.ReadControlData(ctx, w.Run, w.BinDir, pgdata)
	if err != nil {
		return err
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); system != w.Task.SystemIdentifier {
		return job.Final(ReasonSourceChanged, fmt.Errorf("the copied data has the system identifier %s instead of %s", system, w.Task.SystemIdentifier))
	}
	if control.State != postgres.StateShutDown {
		return fmt.Errorf("the cloned data is %q, not shut down", control.State)
	}
	_, err = os.Stat(filepath.Join(pgdata, "pg_wal", postgres.HistoryName(control.Timeline)))
	if err != nil {
		return fmt.Errorf("the cloned data is on timeline %d, which didn't begin here: %w", control.Timeline, err)
	}
	return nil
}
