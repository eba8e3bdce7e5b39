package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// Verifying is the phase of a verification.
const Verifying Phase = "Verifying"

// maxWrong bounds the wrong objects that are named.
const maxWrong = 100

// VerifyOptions change how a backup is verified.
type VerifyOptions struct {
	// MaxBytes stops after about this many stored bytes of packs; 0 reads all.
	MaxBytes int64
	// MaxBytesPerSecond bounds what is read from the store; 0 is no bound.
	MaxBytesPerSecond int64
	Workers           int
	MemoryLimit       int64
	Progress          func(Progress)
	Memory            int64            // as of Options
	Now               func() time.Time // the clock of object locks; nil is time.Now

	shortWAL bool // segments need not be whole, in tests
}

func (o VerifyOptions) now() time.Time { return Options{Now: o.Now}.now() }

// Verified is what a verification has seen.
type Verified struct {
	StoredBytes int64
	Objects     int  // packs and WAL that were looked at
	Whole       bool // every byte was read
	// Wrong are the objects that are missing or not what was stored: the first hundred, in the order of their keys, and
	// what was found first of each. WrongObjects counts all of them.
	Wrong        []*CorruptError
	WrongObjects int
	// Locked is until when the object lock of the bucket keeps all of them; nil: it has none, or doesn't say.
	Locked *Locked
}

// VerifyBackup is Verify of a backup of which the manifest has to be read yet. A manifest that is missing or can't be read
// is a wrong object like any other.
func VerifyBackup(ctx context.Context, store objstore.Store, lineage, id string, opts VerifyOptions) (Verified, error) {
	if opts.Memory > 0 {
		if header, err := ReadHeader(ctx, store, lineage, id); err == nil { // what is wrong with it is found below
			if err := header.CheckMemory(opts.Memory); err != nil {
				return Verified{}, err
			}
		}
	}
	paced := pacedStore{store, newThrottle(opts.MaxBytesPerSecond)}
	manifest, err := twice(ctx, func() (*Manifest, error) { return ReadManifest(ctx, paced, lineage, id) })
	if err == nil {
		verified, err := Verify(ctx, store, manifest, opts)
		verified.Objects++
		return verified, err
	}
	key := layout.ManifestKey(lineage, id)
	corrupt := wrong(key, err)
	if errors.Is(err, ErrFormat) {
		corrupt = &CorruptError{Object: key, Detail: "this version can't read it", Err: err}
	}
	if corrupt == nil {
		return Verified{}, err
	}
	return Verified{Objects: 1, Wrong: []*CorruptError{corrupt}, WrongObjects: 1}, corrupt
}

// Verify reads a backup as a restore would, without writing anything, and the WAL that it needs. It reads on after it has
// found something wrong, and says all of it in Verified; the error is the first of it, a *CorruptError. Other errors, such
// as those of objstore, end it.
func Verify(ctx context.Context, store objstore.Store, manifest *Manifest, opts VerifyOptions) (Verified, error) {
	v := &verifier{findings: map[string]*CorruptError{}, shortWAL: opts.shortWAL}
	v.store = pacedStore{store, newThrottle(opts.MaxBytesPerSecond)}
	v.fetcher = &fetcher{store: v.store, header: &manifest.Header, newSink: func() sink { return nowhere{} }}
	total := contentBytes(manifest.Files)
	report := newReporter(opts.Progress, func() Progress {
		return Progress{Done: v.fetcher.content.Load(), Total: total, Stored: v.fetcher.stored.Load()}
	})
	defer report.close()
	report.enter(Verifying)
	if err := v.readWAL(ctx); err != nil {
		return v.result(false), err
	}
	whole, err := v.fetcher.feed(ctx, partRefs(manifest.Files), fetchers(opts.Workers, opts.MemoryLimit), opts.MaxBytes, v.work)
	result := v.result(whole && err == nil)
	if err == nil && whole {
		if result.Locked, err = readLocks(ctx, store, &manifest.Header, opts.now()); err != nil {
			return v.result(false), err
		}
	}
	if err == nil && len(result.Wrong) > 0 {
		err = result.Wrong[0]
	}
	return result, err
}

// verifier reads one backup.
type verifier struct {
	store   objstore.Store
	fetcher *fetcher
	// shortWAL as of VerifyOptions.
	shortWAL bool

	mu       sync.Mutex
	findings map[string]*CorruptError // by object
	segments int
}

func (v *verifier) note(found *CorruptError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.findings[found.Object] == nil {
		v.findings[found.Object] = found
	}
}

func (v *verifier) result(whole bool) Verified {
	result := Verified{
		StoredBytes: v.fetcher.stored.Load(), Objects: len(v.fetcher.header.Packs) + v.segments,
		Whole: whole, WrongObjects: len(v.findings),
	}
	for _, found := range v.findings {
		result.Wrong = append(result.Wrong, found)
	}
	slices.SortFunc(result.Wrong, func(a, b *CorruptError) int { return strings.Compare(a.Object, b.Object) })
	result.Wrong = result.Wrong[:min(maxWrong, len(result.Wrong))]
	return result
}

// readWAL reads the segments without which the backup can't be restored.
func (v *verifier) readWAL(ctx context.Context) error {
	header := v.fetcher.header
	first, err := postgres.ParseSegment(header.WAL.First, header.WAL.SegmentSize)
	if err != nil {
		return err
	}
	last, err := postgres.ParseSegment(header.WAL.Last, header.WAL.SegmentSize)
	if err != nil {
		return err
	}
	archive := wal.New(v.store)
	for segment := first; segment.Compare(last) <= 0; segment = segment.Next() {
		v.segments++
		there, err := twice(ctx, func() (wal.Header, error) { return archive.GetTo(ctx, header.Lineage, segment.Name(), io.Discard) })
		if err == nil && (uint64(there.RawSize) == header.WAL.SegmentSize || v.shortWAL) {
			continue
		}
		key, keyErr := wal.Key(header.Lineage, segment.Name())
		if err == nil { // PostgreSQL stops recovery at such a file
			err = &CorruptError{Object: key, Detail: fmt.Sprintf("it has %d bytes, and a segment has %d", there.RawSize, header.WAL.SegmentSize)}
		}
		found := wrong(key, err)
		if found == nil || keyErr != nil {
			return errors.Join(err, keyErr)
		}
		if errors.Is(err, objstore.ErrNotFound) {
			found.Err = fmt.Errorf("%w: %w", ErrWALMissing, err)
		}
		v.note(found)
	}
	return nil
}

// work reads batches, and notes what is wrong in them.
func (v *verifier) work(ctx context.Context, queue <-chan batch) error {
	stored, content := make([]byte, 0, maxRange+maxGap), make([]byte, 0, minFrame)
	for b := range queue {
		stored = slices.Grow(stored[:0], int(b.to-b.from))[:b.to-b.from]
		var err error
		content, err = v.fetcher.check(ctx, b, stored, content)
		if err == nil {
			continue
		}
		found := wrong(v.fetcher.key(b.pack), err)
		if found == nil {
			return err
		}
		v.note(found)
	}
	return nil
}

// twice does a read once more that has found something wrong: bytes can also be lost on the way.
func twice[T any](ctx context.Context, read func() (T, error)) (T, error) {
	value, err := read()
	if err == nil || ctx.Err() != nil || wrong("", err) == nil {
		return value, err
	}
	return read()
}

// wrong tells an object that is missing or not what was stored from a store that doesn't work; nil is the latter.
func wrong(key string, err error) *CorruptError {
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		return corrupt
	case errors.Is(err, objstore.ErrNotFound):
		return &CorruptError{Object: key, Detail: "it is missing", Err: err}
	case errors.Is(err, wal.ErrCorrupt), errors.Is(err, objstore.ErrCorrupt), errors.Is(err, objstore.ErrTorn), errors.Is(err, objstore.ErrTooLarge):
		return &CorruptError{Object: key, Detail: "it is not what was stored", Err: err}
	case errors.Is(err, wal.ErrFormat):
		return &CorruptError{Object: key, Detail: "this version can't read it", Err: err}
	}
	return nil
}

// pacedStore bounds how fast a store is read.
type pacedStore struct {
	objstore.Store
	throttle *throttle
}

// Get reads, and pays for it afterwards: only then is known how much it was.
func (s pacedStore) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	body, err := s.Store.Get(ctx, key, limit)
	if err != nil {
		return nil, err
	}
	return body, s.throttle.take(ctx, int64(len(body)))
}

// ReadAt reads when its bytes may be read.
func (s pacedStore) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if err := s.throttle.take(ctx, int64(len(p))); err != nil {
		return 0, err
	}
	return s.Store.ReadAt(ctx, key, p, off)
}

// nowhere is a sink for content that only had to be checked.
type nowhere struct{}

func (nowhere) write(partRef, []byte) error { return nil }
func (nowhere) close() error                { return nil }

// missingWAL names the segments that a backup needs and the archive lacks.
func missingWAL(ctx context.Context, archive *wal.Archive, lineage string, needed WALRange) ([]string, error) {
	first, err := postgres.ParseSegment(needed.First, needed.SegmentSize)
	if err != nil {
		return nil, err
	}
	last, err := postgres.ParseSegment(needed.Last, needed.SegmentSize)
	if err != nil {
		return nil, err
	}
	return archive.MissingSegments(ctx, lineage, first, last)
}
