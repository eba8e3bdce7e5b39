package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
)

// Write makes a backup of source: it starts, copies, stops, waits until the WAL that the backup
// needs is archived in its lineage, and commits it by putting the manifest. Until then there is no
// backup, and an interrupted one may be run again under the same id. Of several runs at once one
// commits, and the others return its manifest.
//
// Errors: ErrDamagedPages, ErrWALMissing, ErrTarget, those of objstore, Start and Stop.
func Write(ctx context.Context, store objstore.Store, source Source, opts Options) (*Manifest, error) {
	if err := errors.Join(opts.validate(), source.validate()); err != nil {
		return nil, err
	}
	committed, err := repeated(ctx, store, source.Lineage, opts.ID)
	if !errors.Is(err, objstore.ErrNotFound) {
		return committed, err
	}
	w := &writing{store: store, source: source, opts: opts, attempt: attemptName()}
	manifest, err := w.run(ctx)
	if err != nil && w.attempted {
		return nil, err // the manifest may be there: its packs must stay
	}
	if err != nil || manifest != w.manifest {
		w.discard(ctx)
	}
	if err != nil {
		return nil, err
	}
	w.sweep(ctx, manifest)
	return manifest, nil
}

// repeated finds the backup if it is committed already. A manifest without its packs is removed: it is in the way of the one
// that is to be put.
func repeated(ctx context.Context, store objstore.Store, lineage, id string) (*Manifest, error) {
	committed, err := readWhole(ctx, store, lineage, id)
	if errors.Is(err, ErrCorrupt) && errors.Is(err, objstore.ErrNotFound) {
		if err := store.Delete(ctx, layout.ManifestKey(lineage, id)); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if committed.Type == Incremental {
		_ = dropClaims(ctx, store, lineage, id, time.Time{}) // of a run that was killed after its last put
	}
	return committed, nil
}

// writing is one run of Write.
type writing struct {
	store  objstore.Store
	source Source
	opts   Options

	report   *reporter
	packer   *packer
	copier   *copier
	total    atomic.Int64
	manifest *Manifest
	attempt  string // makes the names differ from those of another run of the same backup
	files    int    // that were found
	fit      sizes
	parent   *base // nil: a full backup
	compared Comparison
	why      string // why it is a full one after all
	damage   *Damage
	claimed  string   // key of the claim on the parent's packs
	locking  *locking // nil: the bucket locks nothing
	// attempted is set before the manifest is put: from then on nobody knows whether it is there
	// without looking.
	attempted bool
}

func (w *writing) look() Progress {
	return Progress{Done: w.copier.done.Load(), Total: w.total.Load(), Stored: w.packer.stored.Load()}
}

// run makes the backup. It returns the manifest that is committed, which may be another run's.
func (w *writing) run(ctx context.Context) (*Manifest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var err error
	if w.locking, err = newLocking(ctx, w.store, w.opts.now()); err != nil {
		return nil, err
	}
	started, entries, err := w.begin(ctx, cancel)
	if err != nil {
		return nil, err
	}
	w.report = newReporter(w.opts.Progress, w.look)
	defer w.report.close()
	w.report.enter(Copying)
	if err := w.compare(ctx, started, entries); err != nil {
		return nil, err
	}
	if err := w.copy(ctx, entries); err != nil {
		return nil, err
	}
	stopped, err := w.source.Stop(ctx)
	if err != nil {
		return nil, fmt.Errorf("stop the backup: %w", err)
	}
	if err := w.packer.wait(); err != nil {
		return nil, err
	}
	w.packer.release()
	if err := w.findDamage(stopped); err != nil {
		return nil, err
	}
	w.manifest = w.describe(started, stopped, entries)
	w.report.enter(AwaitWAL)
	if err := w.awaitWAL(ctx, w.manifest.WAL); err != nil {
		return nil, err
	}
	w.report.enter(Committing)
	return w.commit(ctx)
}

// begin starts the backup and then lists the files: what comes into being later is in the WAL.
func (w *writing) begin(ctx context.Context, cancel context.CancelCauseFunc) (Started, []*entry, error) {
	if w.opts.Progress != nil {
		w.opts.Progress(Progress{Phase: Starting})
	}
	if err := checkRest(Header{Cluster: w.source.Cluster}, maxRest-restRoom); err != nil {
		return Started{}, nil, err
	}
	started, err := w.source.Start(ctx)
	if err != nil {
		return Started{}, nil, fmt.Errorf("start the backup: %w", err)
	}
	entries, err := scan(ctx, w.source.DataDir)
	if err != nil {
		return Started{}, nil, err
	}
	w.files = len(entries)
	size := int64(0)
	for _, e := range entries {
		size += e.Size
	}
	fit := w.opts.fit(size)
	w.fit = fit
	packs := int(size / fit.packSize) // if nothing compresses
	if err := checkMemory(w.opts.Memory, w.files, packs, int64(w.files)*bytesPerFile+int64(packs)*bytesPerOwnPack); err != nil {
		return Started{}, nil, err
	}
	w.opts.Workers = fit.workers
	header := packHeader{Lineage: w.source.Lineage, Backup: w.opts.ID}
	w.packer = newPacker(ctx, cancel, w.store, header, w.attempt, fit.buffers, fit.packSize)
	w.copier = &copier{
		packer: w.packer, level: w.opts.level(), frameSize: fit.frame, throttle: newThrottle(w.opts.MaxBytesPerSecond),
		checkControl: w.source.CheckControl,
	}
	if w.source.DataChecksums {
		w.copier.checker = &pageChecker{start: started.LSN, wait: pause}
	}
	return started, entries, nil
}

// findDamage says what the pages that were read came to.
func (w *writing) findDamage(stopped Stopped) error {
	if w.copier.checker == nil {
		return nil
	}
	w.damage = w.copier.checker.result(stopped.LSN)
	if w.damage == nil || w.opts.ReportDamage {
		return nil
	}
	return &DamageError{*w.damage}
}

// attemptName is different for every run, so that none overwrites what another has uploaded.
func attemptName() string { return strings.ToLower(rand.Text()[:8]) }

// copy reads what is wanted, the control file last, and hands the last pack to its upload.
func (w *writing) copy(ctx context.Context, entries []*entry) error {
	if err := w.copier.run(ctx, entries, w.opts.Workers); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Path == controlFile {
			if err := w.copier.control(ctx, e); err != nil {
				return err
			}
		}
	}
	w.packer.flush()
	return nil
}

// commit checks that every pack is there, and puts the manifest.
func (w *writing) commit(ctx context.Context) (*Manifest, error) {
	if err := checkPacks(ctx, w.store, &w.manifest.Header); err != nil {
		// Another run may have committed, and swept these packs away.
		there, errThere := readWhole(ctx, w.store, w.source.Lineage, w.opts.ID)
		if errThere == nil {
			return there, nil
		}
		return nil, err
	}
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	object, err := encodeManifest(w.manifest)
	if err != nil {
		return nil, err
	}
	w.attempted = true
	err = w.store.Put(ctx, layout.ManifestKey(w.source.Lineage, w.opts.ID), object, objstore.PutOptions{IfAbsent: true})
	if err == nil {
		return w.manifest, w.readBack(ctx)
	}
	if !errors.Is(err, objstore.ErrExists) {
		return nil, err
	}
	return w.meet(ctx)
}

// lock extends the locks of what the backup consists of, and writes into the manifest until when it is locked.
func (w *writing) lock(ctx context.Context) (err error) {
	parent := (*Header)(nil)
	if w.parent != nil {
		parent = &w.parent.Header
	}
	locked, err := w.locking.coverBackup(ctx, &w.manifest.Header, parent)
	if err != nil || locked == nil {
		return err
	}
	w.manifest.Locked = locked
	if errors.Is(checkRest(w.manifest.Header, maxRest), ErrTooLarge) {
		locked.Packs = nil // the next backup asks the bucket
	}
	return nil
}

// readBack reads the manifest as it lies in the store: a backup counts only if it can be read.
func (w *writing) readBack(ctx context.Context) error {
	header, err := ReadHeader(ctx, w.store, w.source.Lineage, w.opts.ID)
	if err != nil {
		return fmt.Errorf("read back what was committed: %w", err)
	}
	if header.ID != w.manifest.ID || len(header.Packs) != len(w.manifest.Packs) || header.Totals != w.manifest.Totals {
		return &CorruptError{Object: layout.ManifestKey(w.source.Lineage, w.opts.ID), Detail: "it is not what was committed"}
	}
	return checkList(ctx, w.store, header)
}

// meet finds out whose manifest is there: this run's own, put by a request whose answer was lost, or
// another run's.
func (w *writing) meet(ctx context.Context) (*Manifest, error) {
	there, err := ReadManifest(ctx, w.store, w.source.Lineage, w.opts.ID)
	if err != nil {
		return nil, err
	}
	if len(there.Packs) > 0 && len(w.manifest.Packs) > 0 && there.Packs[0] == w.manifest.Packs[0] {
		return w.manifest, nil
	}
	return there, withPacks(ctx, w.store, &there.Header) // else the next run clears it away
}

// awaitWAL waits until the archive holds what the backup can't be restored without.
func (w *writing) awaitWAL(ctx context.Context, needed WALRange) error {
	archive := wal.New(w.store)
	poll := w.opts.WALPoll
	if poll == 0 {
		poll = defaultWALPoll
	}
	// Mostly the last segment is on its way, and there in a moment.
	for begun, wait := time.Now(), poll/16; ; wait = min(2*wait, poll) {
		missing, err := missingWAL(ctx, archive, w.source.Lineage, needed)
		if err != nil || len(missing) == 0 {
			return err
		}
		if w.opts.WALTimeout > 0 && time.Since(begun) > w.opts.WALTimeout {
			return fmt.Errorf("%w: %d segments from %s on, after %s", ErrWALMissing, len(missing), missing[0], w.opts.WALTimeout)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrWALMissing, missing[0], err)
		}
	}
}

// discardTimeout bounds the clearing away after an error: what stays is an orphan, which SweepOrphans
// finds.
const discardTimeout = 20 * time.Second

// discard removes what this run has uploaded.
func (w *writing) discard(ctx context.Context) {
	defer w.unclaim(ctx)
	if w.packer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = w.packer.wait()
	if keys := w.packer.keys(); len(keys) > 0 {
		_ = w.store.Delete(ctx, keys...)
	}
}

// sweep removes what runs that ended early left under this id. The backup is committed, so nobody
// else can commit it, and its own packs are known. What can't be removed now is an orphan, which
// SweepOrphans finds.
func (w *writing) sweep(ctx context.Context, manifest *Manifest) {
	_ = dropClaims(ctx, w.store, w.source.Lineage, w.opts.ID, time.Time{})
	_ = eachRangeOfPacks(func(used *usedPacks) error {
		used.addAll(&manifest.Header)
		return nil
	}, func(used *usedPacks) error {
		_, err := removePacks(ctx, w.store, w.source.Lineage, w.opts.ID, used)
		return err
	})
}
