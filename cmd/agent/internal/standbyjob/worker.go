// Package standbyjob keeps the data of a standby cluster: it restores a backup of another cluster, has a server replay what that one archives, and
// makes the data that of a cluster of its own once a promotion is requested. It writes nothing into the archive.
//
// What it does follows from the record beside the data, which is written durably before each stage. Nothing that is said from outside takes a
// stage back.
package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/readonly"
)

// Reasons that a standby's Job may end with for good.
const (
	ReasonForeignVolume = "ForeignVolume" // the data on the volume is that of another cluster's standby
	ReasonNoSpace       = "NoSpace"       // the backup doesn't fit on the volume
)

// Options are where things are in the pod.
type Options struct {
	// SocketDir takes the server's socket and that of restore_command, RunDir the server's configuration.
	SocketDir, RunDir string
	// WAL is the program of restore_command.
	WAL string
	// OpenStore opens the repository. It gives up after some seconds, as whoever asks asks again.
	OpenStore func(ctx context.Context, config objstore.Config) (objstore.Store, error)
	// OpenPatiently opens it for what would have to begin again after an outage.
	OpenPatiently func(ctx context.Context, config objstore.Config) (objstore.Store, error)
	// Memory of the Job's container, in bytes; 0: without limit.
	Memory int64
	// Pause between two looks, and Retry before something that failed is tried again; 0: the usual ones.
	Pause, Retry time.Duration
	// Notice is how long another copy is announced before it begins; 0: the usual time.
	Notice time.Duration
	Log    *slog.Logger
}

const (
	usualPause = 10 * time.Second
	usualRetry = 5 * time.Second
	// tipEvery is how many looks there are for each one at the archive.
	tipEvery = 3
)

// Worker is a standby on a volume.
type Worker struct {
	Options
	initialize.Standby

	store  objstore.Store // read-only; nil: it can't be opened, and is not needed
	record record
	report agentapi.StandbyReport
	source *source
	// heard is what was wanted last of this cluster.
	heard agentapi.StandbyWanted
	// astray: the newest timeline is no continuation of the data.
	astray bool
	// until ends following a source, for a copy that is made beside the current one; nil: only the promotion does.
	until func(seen) error
}

// New makes the function for initialize.Worker.
func New(options Options) func(context.Context, initialize.Standby) (string, error) {
	return func(ctx context.Context, wanted initialize.Standby) (string, error) {
		w := &Worker{Options: options, Standby: wanted}
		if w.Pause == 0 {
			w.Pause = usualPause
		}
		if w.Retry == 0 {
			w.Retry = usualRetry
		}
		if w.Notice == 0 {
			w.Notice = usualNotice
		}
		return w.Make(ctx)
	}
}

// Make returns once the data was promoted, with what it was made from. The caller makes the data generation complete. After an error, the next
// attempt continues where this one has ended.
func (w *Worker) Make(ctx context.Context) (from string, err error) {
	if err := w.copies().settle(); err != nil {
		return "", err
	}
	if w.record, err = readRecord(w.Volume, w.DataGeneration); err != nil {
		return "", err
	}
	if w.record.Cluster != "" && w.record.Cluster != w.Task.Cluster {
		return "", job.Final(ReasonForeignVolume, fmt.Errorf("the volume has the standby of the cluster with UID %s, and this one has UID %s", w.record.Cluster, w.Task.Cluster))
	}
	w.report = agentapi.StandbyReport{Stage: agentapi.StandbyRestoring}
	if err := w.open(ctx); err != nil {
		return "", err
	}
	if err := w.fill(ctx); err != nil {
		return "", err
	}
	for !w.record.Settled {
		if err := w.proceed(ctx); err != nil {
			return "", err
		}
	}
	if err := w.finish(context.WithoutCancel(ctx)); err != nil {
		return "", err
	}
	return w.record.Lineage + "/" + w.record.Backup, nil
}

// fill restores a backup, if none is on the volume.
func (w *Worker) fill(ctx context.Context) error {
	for w.record.stage() == agentapi.StandbyRestoring {
		if err := w.restore(ctx); err != nil {
			if w.record.Why != "" && hopeless(err) {
				return errors.Join(errUnwanted, err) // there is the other copy
			}
			if err = w.failed(ctx, err, restoreRetries*w.Retry); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreRetries is how many pauses there are before another attempt to restore, which reads the headers of all backups.
const restoreRetries = 6

// open opens the repository, which nothing is written to, whatever its configuration says.
func (w *Worker) open(ctx context.Context) error {
	for {
		store, err := w.OpenStore(ctx, w.repository())
		if err == nil {
			w.store = readonly.New(store)
			return nil
		}
		if w.record.Order == agentapi.PromoteImmediately { // which asks no archive
			return nil
		}
		if err = w.failed(ctx, err, w.Retry); err != nil {
			return err
		}
	}
}

// repository is only read.
func (w *Worker) repository() objstore.Config {
	config := w.Task.Repository
	config.ReadOnly = true
	return config
}

// failed shows an error that may pass, and waits before it is tried again. Any other one is returned.
func (w *Worker) failed(ctx context.Context, err error, pause time.Duration) error {
	failure := &job.Failure{}
	if ctx.Err() != nil || errors.As(err, &failure) && failure.Final {
		return err
	}
	w.Log.Warn("The standby can't continue now", "error", err)
	w.exchange(ctx, agentapi.StandbyProblem{Reason: agentapi.StandbyNotFollowing, Message: explain(err)})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// explain is a sentence about an error, which may be of the store.
func explain(err error) string {
	fault := &objstore.Error{}
	if errors.As(err, &fault) || errors.Is(err, objstore.ErrConfig) {
		return "The archive can't be read: " + objstore.Explain(err)
	}
	return err.Error()
}

// show has the report say what the record says.
func (w *Worker) show() {
	w.report.Stage, w.report.Lineage, w.report.Backup = w.record.stage(), w.record.Lineage, w.record.Backup
	w.report.ReinitializedAt = w.record.Reinitialized
	w.report.Volume = space(w.Volume)
}

// space on the volume; nil: it isn't known.
func space(volume generation.Volume) *agentapi.VolumeStatus {
	size, free, err := volume.Space()
	if err != nil {
		return nil
	}
	return &agentapi.VolumeStatus{Bytes: size, UsedBytes: size - free}
}

// hear learns what is wanted, and records a promotion that was requested. It reports what is known.
func (w *Worker) hear(ctx context.Context) { w.exchange(ctx, w.report.Problems...) }

// exchange reports, with these problems, and hears. Who can't be reached is asked again at the next look: the standby continues as before.
func (w *Worker) exchange(ctx context.Context, problems ...agentapi.StandbyProblem) {
	w.show()
	w.report.Problems = problems
	limited, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	wanted, err := w.Exchange(limited, w.report)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("How the standby follows can't be reported; it continues", "error", err)
		}
		return
	}
	if wanted.Cluster != "" && wanted.Cluster == w.record.Cluster {
		w.heard = wanted
	}
	next, changed := w.record.heed(wanted)
	if !changed {
		return
	}
	if err := w.note(next); err != nil {
		w.Log.Error("The promotion can't be recorded, and doesn't begin", "error", err)
		return
	}
	w.Log.Info("A promotion was requested", "how", next.Order, "lineage", next.Lineage)
	w.show()
}

// note records a stage, durably, before anything of it is done.
func (w *Worker) note(next record) error {
	if err := next.write(w.Volume, w.DataGeneration); err != nil {
		return err
	}
	w.record = next
	return nil
}

const exchangeTime = 10 * time.Second

// pgdata is the data directory.
func (w *Worker) pgdata() string { return w.Volume.PGData(w.DataGeneration) }

// folder of the data generation.
func (w *Worker) folder() string { return w.Volume.Dir(w.DataGeneration) }

func (w *Worker) configDir() string { return filepath.Join(w.RunDir, "standby") }

func (w *Worker) spool() string { return generation.WAL(w.Volume).Beside(w.DataGeneration, "spool") }

// begin makes the folder of the data generation anew. Nothing in it has followed anything yet.
func (w *Worker) begin() error {
	if _, err := w.Volume.Begin(w.DataGeneration); err != nil {
		return err
	}
	return w.record.write(w.Volume, w.DataGeneration)
}
