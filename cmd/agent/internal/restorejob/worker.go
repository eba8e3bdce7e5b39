// Package restorejob is the worker of a Restore's Job: it creates a data generation from a backup and the WAL after it.
package restorejob

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
	"howdah.dev/howdah/pkg/postgres"
)

// Reasons that a restore ends with, besides the job package's.
const (
	ReasonDataCorrupt   = "DataCorrupt"        // a stored object is not what was written
	ReasonUnreachable   = "TargetUnreachable"  // replay doesn't lead to the target
	ReasonNoBackup      = "BackupNotFound"     // the backup was deleted meanwhile
	ReasonStore         = "RepositoryNotReady" // the store can't be used now
	ReasonNoSpace       = "NoSpace"            // the volume is too small
	ReasonWrongPrograms = "UnknownVersion"     // the image has another PostgreSQL
	// ReasonPreviousDataDiscarded: it failed after the previous data was given up for it.
	ReasonPreviousDataDiscarded = "PreviousDataDiscarded"
	ReasonNotArchived           = "PreviousDataNotArchived" // some WAL of the data to discard is on the volume only
	ReasonUncleanShutdown       = "UncleanShutdown"         // the data to discard was not shut down cleanly
)

// Phases of the progress.
const (
	phaseVerifying = "Verifying"
	phaseFetching  = "Fetching"
	phaseSyncing   = "Syncing"
	phaseReplaying = "Replaying"
	phaseFinishing = "Finishing"
	phaseCompleted = "Completed"
)

// Worker restores on a volume.
type Worker struct {
	Volume generation.Volume
	// SocketDir takes the server's socket and that of restore_command, RunDir the server's configuration.
	SocketDir, RunDir string
	// WAL is the program of restore_command.
	WAL string
	Run postgres.Run
	Now func() time.Time
	// OpenStore opens the repository, with patience for outages.
	OpenStore func(ctx context.Context, config objstore.Config) (objstore.Store, error)
	// Report is told of the progress.
	Report func(job.Progress)
	Log    *slog.Logger
	// Memory of the Job's container, in bytes; 0: without limit.
	Memory int64
	// ExtensionsDir has the images of extensions that the cluster has.
	ExtensionsDir string
}

// restoring is one run of a worker.
type restoring struct {
	Worker
	task       agentapi.RestoreJob
	extensions extensions.Folders
	store      objstore.Store
	// stopReading ends what is said in the bucket of this restore.
	stopReading func()
	manifest    *backup.Manifest
	binDir      string
	pgdata      string
	last        postgres.Segment
	toTheEnd    bool         // replay had no target to stop at
	extent      postgres.LSN // the end of the archive as replay began
	errExtent   error        // why that isn't known
	fetched     time.Duration
	taken       int64 // bytes that were not fetched, because the previous data still held them
	// before is the copy of the previous data that is given up; empty: none is whole, as a former run had begun with it.
	before string
	// lacks is what the previous data lacks of the backup.
	lacks *backup.Difference
	// discarded says that the previous data is given up.
	discarded bool
	disabled  []string // subscriptions
	dropped   []string // parameters of postgresql.auto.conf
}

// Restore makes the generation that the task asks for. One that is whole is reported again. After an error nothing of
// it is left, unless it has taken over the previous data, and another run may continue with that.
func (w Worker) Restore(ctx context.Context, task agentapi.RestoreJob) (agentapi.RestoreResult, error) {
	if _, err := w.Volume.Read(task.DataGeneration); err == nil {
		return w.recorded(task.DataGeneration)
	}
	r := &restoring{Worker: w, task: task, stopReading: func() {}}
	result, err := r.make(ctx)
	r.stopReading()
	if err == nil {
		total := r.manifest.Totals.LogicalBytes
		w.Report(job.Progress{Phase: phaseCompleted, DoneBytes: total, TotalBytes: total, Message: completed(result)})
		return result, nil
	}
	err = classify(err, w.Volume, task.InPlace)
	if r.discarded {
		err = afterDiscard(err)
	}
	if r.discarded && !final(err) {
		return agentapi.RestoreResult{}, err
	}
	if errRemove := w.Volume.Remove(task.DataGeneration); errRemove != nil {
		w.Log.Error("What was restored so far can't be removed; the next run removes it", "error", errRemove)
	}
	return agentapi.RestoreResult{}, err
}

// final says that no other run is tried.
func final(err error) bool {
	failure := &job.Failure{}
	return errors.As(err, &failure) && failure.Final
}

func completed(result agentapi.RestoreResult) string {
	message := "replayed to LSN " + result.ReachedLSN
	if result.TakenBytes > 0 {
		message += "; " + taken(result.TakenBytes)
	}
	return message
}

func taken(bytes int64) string {
	return fmt.Sprintf("%d MiB are taken from the previous data", bytes>>20)
}

func (r *restoring) make(ctx context.Context) (agentapi.RestoreResult, error) {
	for _, do := range []func(context.Context) error{r.open, r.checkSpace, r.discard, r.fetch} {
		if err := do(ctx); err != nil {
			return agentapi.RestoreResult{}, err
		}
	}
	began := r.Now()
	reached, err := r.replay(ctx)
	if err != nil {
		return agentapi.RestoreResult{}, err
	}
	reached.FetchSeconds, reached.ReplaySeconds = seconds(r.fetched), seconds(r.Now().Sub(began))
	reached.TakenBytes, reached.DisabledSubscriptions = r.taken, r.disabled[:min(len(r.disabled), namedSubscriptions)]
	reached.DroppedSettings = r.dropped[:min(len(r.dropped), namedSettings)]
	return r.complete(reached)
}

// namedSubscriptions is how many are named: a termination message has 4 KiB.
const (
	namedSubscriptions = 16
	namedSettings      = 16
)

// open finds the programs, the store and the backup.
func (r *restoring) open(ctx context.Context) (err error) {
	if r.binDir, err = postgres.BinDir(ctx, r.Run, r.task.MajorVersion); err != nil {
		return job.Final(ReasonWrongPrograms, err)
	}
	if r.extensions, err = extensions.Find(r.ExtensionsDir, r.task.MajorVersion); err != nil {
		return job.Final(ReasonWrongPrograms, err)
	}
	if r.store, err = r.OpenStore(ctx, r.task.Repository); err != nil {
		return err
	}
	r.sayReading(ctx)
	if err := r.checkMemory(ctx); err != nil {
		return err
	}
	r.manifest, err = backup.ReadManifest(ctx, r.store, r.task.Lineage, r.task.BackupID)
	if errors.Is(err, objstore.ErrNotFound) {
		return job.Final(ReasonNoBackup, fmt.Errorf("backup %s was deleted from the repository", r.task.BackupID))
	}
	if err != nil {
		return err
	}
	if r.manifest.PGMajor != r.task.MajorVersion {
		return job.Final(job.ReasonBadJob, fmt.Errorf("backup %s is from PostgreSQL %d, not %d", r.manifest.ID, r.manifest.PGMajor, r.task.MajorVersion))
	}
	if r.last, err = postgres.ParseSegment(r.task.LastWAL, r.manifest.WAL.SegmentSize); err != nil {
		return job.Final(job.ReasonBadJob, fmt.Errorf("lastWAL: %w", err))
	}
	return r.begin()
}

// sayReading says in the bucket that the backup is read, before anything is: whoever deletes there may know of no Restore of this namespace.
func (r *restoring) sayReading(ctx context.Context) {
	if r.task.Repository.ReadOnly {
		return
	}
	object := r.task.Object
	reader := readnotice.Reader{
		ID: object.UID + "-" + strings.ToLower(rand.Text()), Name: fmt.Sprintf("Restore %s/%s", object.Namespace, object.Name), Backup: r.task.BackupID,
	}
	r.stopReading = readnotice.Announce(ctx, r.store, r.task.Lineage, reader, func(err error) {
		r.Log.Warn("The bucket does not accept a notice that this backup is being read, so others may delete it meanwhile", "error", err)
	})
}

// seconds are whole ones, and never none.
func seconds(d time.Duration) int64 { return max(1, int64(d.Round(time.Second)/time.Second)) }

// spareBytes are left on the volume beside the backup, for WAL that is being replayed.
const spareBytes = 64 << 20

func (r *restoring) checkSpace(context.Context) error {
	_, free, err := r.Volume.Space()
	if err != nil {
		return fmt.Errorf("look for space on the volume: %w", err)
	}
	beside := ""
	if before := r.task.DiscardPrevious; before != "" {
		used, err := r.Volume.Used(before)
		inherited, errInherited := r.Volume.Used(r.task.DataGeneration) // by a former run
		if err = errors.Join(err, errInherited); err != nil {
			return fmt.Errorf("look for space on the volume: %w", err)
		}
		free, beside = free+used+inherited, " without the previous data"
	}
	if needed := r.manifest.Totals.LogicalBytes + spareBytes; free < needed {
		return job.Final(ReasonNoSpace, fmt.Errorf("the volume has %d MiB free%s, and the restore needs %d MiB at least: %s",
			free>>20, beside, needed>>20, moreSpace("size", r.task.InPlace)))
	}
	return nil
}

// moreSpace says what to write instead.
func moreSpace(field string, inPlace bool) string {
	if inPlace {
		return fmt.Sprintf("raise spec.storage.%s of the PostgresCluster, and make another Restore", field)
	}
	return "make another Restore with a larger spec.destination.newCluster.storage." + field
}

// fetch writes the backup's files.
func (r *restoring) fetch(ctx context.Context) error {
	started := r.Now()
	opts := backup.RestoreOptions{MemoryLimit: r.task.MemoryLimit, Progress: r.fetching}
	if r.discarded {
		opts.InPlace, opts.Difference = true, r.lacks
	} else {
		opts.Present = r.present()
	}
	if err := backup.Restore(ctx, r.store, r.manifest, r.pgdata, opts); err != nil {
		return err
	}
	if err := generation.WAL(r.Volume).Place(r.task.DataGeneration); err != nil {
		return err
	}
	r.manifest.Files, r.lacks = nil, nil // of a large database they take memory that replay has use for
	r.fetched = r.Now().Sub(started)
	r.Log.Info("The backup is fetched", "backup", r.manifest.ID, "bytes", r.manifest.Totals.LogicalBytes, "taken", r.taken,
		"seconds", r.Now().Sub(started).Seconds())
	return nil
}

// fetching tells how far the engine is.
func (r *restoring) fetching(p backup.Progress) {
	r.taken = p.Taken
	progress := job.Progress{Phase: phaseFetching, DoneBytes: p.Done, TotalBytes: p.Total}
	if p.Phase == backup.Syncing {
		progress.Phase = phaseSyncing
	}
	if p.Taken > 0 {
		progress.Message = taken(p.Taken)
	}
	r.Report(progress)
}

// present is the previous data, where unchanged frames may be taken from; empty: there is none that could hold any.
func (r *restoring) present() string {
	if !r.task.InPlace {
		return ""
	}
	id, err := r.Volume.Current()
	if err != nil {
		r.Log.Info("Everything is fetched: the previous data isn't found", "error", err)
		return ""
	}
	before, err := r.Volume.Read(id)
	if err != nil || before.SystemIdentifier != r.manifest.SystemIdentifier || before.MajorVersion != r.manifest.PGMajor {
		r.Log.Info("Everything is fetched: the previous data is another database's", "dataGeneration", id,
			"systemIdentifier", before.SystemIdentifier, "majorVersion", before.MajorVersion, "error", err)
		return ""
	}
	return r.Volume.PGData(id)
}

// classify gives an error the reason that a person sees, and says whether trying again may help.
func classify(err error, volume generation.Volume, inPlace bool) error {
	failure := &job.Failure{}
	fault := &objstore.Error{}
	switch {
	case errors.As(err, &failure):
		return err
	case errors.Is(err, backup.ErrCorrupt), errors.Is(err, wal.ErrCorrupt):
		return job.Final(ReasonDataCorrupt, err)
	case errors.Is(err, backup.ErrFormat), errors.Is(err, layout.ErrFormat), errors.Is(err, wal.ErrFormat):
		return job.Final(job.ReasonBadJob, err)
	case errors.Is(err, unix.ENOSPC):
		return job.Final(ReasonNoSpace, fmt.Errorf("the volume is full: %s (%w)", moreSpace(generation.WAL(volume).FullSize(), inPlace), err))
	case sealed.Reason(err) != "":
		return job.StoreFailure(err)
	case errors.As(err, &fault), errors.Is(err, objstore.ErrConfig):
		return job.Fail(ReasonStore, errors.New(objstore.Explain(err)))
	}
	return err
}

const resultFile = "restore.json"

// recorded is the result of a run that had ended before.
func (w Worker) recorded(id string) (result agentapi.RestoreResult, err error) {
	content, err := os.ReadFile(filepath.Join(w.Volume.Dir(id), resultFile))
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal(content, &result)
}

// complete records the result, and makes the generation whole.
func (r *restoring) complete(result agentapi.RestoreResult) (agentapi.RestoreResult, error) {
	content, err := json.Marshal(result)
	if err != nil {
		return result, err
	}
	if err := generation.WriteFile(filepath.Join(r.Volume.Dir(r.task.DataGeneration), resultFile), content, 0o600); err != nil {
		return result, err
	}
	return result, r.Volume.Complete(generation.Generation{
		ID: r.task.DataGeneration, SystemIdentifier: result.SystemIdentifier, MajorVersion: result.MajorVersion,
		Origin: generation.Restore, From: r.task.Lineage + "/" + r.task.BackupID, CreatedAt: r.Now().UTC(),
	})
}

// checkMemory refuses before anything is changed what has more files than the limit of the pod allows. What is wrong with the
// manifest is found when all of it is read.
func (r *restoring) checkMemory(ctx context.Context) error {
	if header, err := backup.ReadHeader(ctx, r.store, r.task.Lineage, r.task.BackupID); err == nil {
		return job.MemoryFailure(header.CheckMemory(r.Memory), "resources.limits.memory of the cluster")
	}
	return nil
}
