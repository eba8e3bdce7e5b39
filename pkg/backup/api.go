package backup

import (
	"context"
	"errors"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// What can be wrong, for errors.Is, besides objstore's sentinels.
var (
	// ErrCorrupt is a stored object whose bytes are not what was stored. It is a *CorruptError.
	ErrCorrupt = errors.New("corrupt backup")
	// ErrDamagedPages is a data directory with pages that fail their checksum. It is a *DamageError.
	ErrDamagedPages = errors.New("damaged pages")
	// ErrWALMissing is WAL that did not reach the archive in time; the backup was not committed.
	ErrWALMissing = errors.New("WAL is missing in the archive")
	// ErrIncomplete is a restore's target that is not empty, or a source that isn't PGDATA.
	ErrTarget = errors.New("unusable directory")
	// ErrFormat is a version or an encryption that this code doesn't know.
	ErrFormat = errors.New("unknown backup format")
)

// CorruptError names what is broken.
type CorruptError struct {
	Object string // key in the store
	File   string // the file of PGDATA that needed it; empty if it concerns the whole backup
	Detail string
	Err    error // cause, may be nil
}

// DamageError lists pages that failed their checksum in the data directory itself.
type DamageError struct {
	Pages []DamagedPage // at most a hundred
	Count int           // of all
}

// DamagedPage is one page that fails its checksum.
type DamagedPage struct {
	File  string       // relative to PGDATA
	Block uint32       // within the relation, counted over its segment files
	LSN   postgres.LSN // as the page says
}

// Compression is the effort to make a backup small.
type Compression string

// Fast is the default: about as fast as the CPU can read, and 4% larger.
const (
	CompressionFast    Compression = "fast"
	CompressionDefault Compression = "default"
)

// Started is what pg_backup_start says.
type Started struct {
	LSN      postgres.LSN
	Timeline uint32
	Time     time.Time // before the backup started, by the database's clock
}

// Stopped is what pg_backup_stop says.
type Stopped struct {
	LSN           postgres.LSN
	Time          time.Time // after it stopped, by the database's clock
	BackupLabel   string
	TablespaceMap string
}

// Source is the database to back up.
type Source struct {
	// DataDir is PGDATA, readable; it may be mounted read-only.
	DataDir string
	// Start and Stop bracket the copy with pg_backup_start and pg_backup_stop in one session. Stop
	// doesn't wait for WAL. It is not called when the copy fails: the caller ends the session, and
	// with it the backup mode.
	Start func(ctx context.Context) (Started, error)
	Stop  func(ctx context.Context) (Stopped, error)

	Lineage          string
	SystemIdentifier string
	PGVersion        string // such as 17.5
	PGMajor          int
	DataChecksums    bool // the cluster has page checksums: check them
	WALSegmentSize   uint64
	Cluster          Cluster
}

// Options change how a backup is written.
type Options struct {
	// ID names the backup in its lineage: letters, digits, dots and dashes. Repeating an id that is
	// committed is a no-op which returns its manifest.
	ID string
	// Tool is the version that is recorded.
	Tool        string
	Compression Compression
	// Workers read and compress in parallel; 0 is the number of CPUs, at most 8.
	Workers int
	// MemoryLimit bounds the buffers in bytes; 0 is 96 MiB. Frames, packs in flight and workers are
	// cut to fit.
	MemoryLimit int64
	// MaxBytesPerSecond bounds what is read from the data directory; 0 is no bound.
	MaxBytesPerSecond int64
	// WALTimeout is how long to wait for the last WAL segments after the copy; 0 waits until ctx ends.
	WALTimeout time.Duration
	// WALPoll is the time between two looks at the archive; 0 is one second.
	WALPoll time.Duration
	// Progress is called about every second and at the end, from one goroutine at a time.
	Progress func(Progress)
}

// Phase is what Write or Restore is busy with.
type Phase string

// The phases, in order; a restore knows only Copying and Syncing.
const (
	Starting   Phase = "Starting"   // waiting for the checkpoint
	Copying    Phase = "Copying"    //
	AwaitWAL   Phase = "AwaitWAL"   // waiting until the last WAL is archived
	Committing Phase = "Committing" //
	Syncing    Phase = "Syncing"    // making what was restored durable
)

// Progress is how far a Write or Restore is. Sizes are in bytes.
type Progress struct {
	Phase  Phase
	Done   int64 // of the content
	Total  int64 // of the content; may change while copying
	Stored int64 // uploaded or downloaded
}

// Write makes a full backup of source: it starts, copies, stops, waits until the WAL that the backup
// needs is archived in its lineage, and commits it by putting the manifest. Until then there is no
// backup, and an interrupted one may be run again under the same id. Of several runs at once one
// commits, and the others return its manifest.
//
// Errors: ErrDamagedPages, ErrWALMissing, ErrTarget, those of objstore, Start and Stop.
func Write(ctx context.Context, store objstore.Store, source Source, opts Options) (*Manifest, error) {
	return nil, errors.ErrUnsupported
}

// RestoreOptions change how a backup is restored.
type RestoreOptions struct {
	// Tablespaces maps the OID of a tablespace to the directory for it. One that isn't named is
	// restored in place, as a folder in pg_tblspc.
	Tablespaces map[string]string
	Workers     int   // 0 is the number of CPUs, at most 8
	MemoryLimit int64 // of buffers in bytes; 0 is 96 MiB
	Progress    func(Progress)
}

// Restore writes the backup into target, which must be empty or missing, checks every byte against
// its checksums, adds backup_label and tablespace_map, and makes it all durable. Recovery settings
// and recovery.signal are the caller's. After an error the target is empty again, as far as that
// could be done; only Restore's success means that target is whole.
//
// Errors: *CorruptError (ErrCorrupt), ErrTarget, those of objstore.
func Restore(ctx context.Context, store objstore.Store, manifest *Manifest, target string, opts RestoreOptions) error {
	return errors.ErrUnsupported
}

// VerifyOptions change how a backup is verified.
type VerifyOptions struct {
	// MaxBytes stops after about so many stored bytes; 0 reads all.
	MaxBytes    int64
	Workers     int
	MemoryLimit int64
	Progress    func(Progress)
}

// Verified is what Verify has seen.
type Verified struct {
	StoredBytes int64
	Whole       bool // every byte was read
}

// Verify reads a backup as a restore would, without writing anything, and checks that the WAL it
// needs is archived. Errors: *CorruptError, ErrWALMissing, those of objstore.
func Verify(ctx context.Context, store objstore.Store, manifest *Manifest, opts VerifyOptions) (Verified, error) {
	return Verified{}, errors.ErrUnsupported
}

// ReadManifest reads and checks a whole manifest. objstore.ErrNotFound: there is no such backup.
func ReadManifest(ctx context.Context, store objstore.Store, lineage, id string) (*Manifest, error) {
	return nil, errors.ErrUnsupported
}

// ReadHead reads and checks the head of a manifest, by one small ranged read.
func ReadHead(ctx context.Context, store objstore.Store, lineage, id string) (*Head, error) {
	return nil, errors.ErrUnsupported
}

// Entry is one backup in a bucket.
type Entry struct {
	Lineage string
	ID      string
	// Committed is when the store took the manifest.
	Committed    time.Time
	ManifestSize int64 // bytes
	Head         *Head // nil if Err is set
	Err          error // why the manifest can't be read; a *CorruptError if it is damaged
}

// List finds all backups in a store, or those of one lineage if it isn't empty, in the order of
// lineage and id. A manifest that can't be read is an Entry with Err; only a list that can't be made
// is an error.
func List(ctx context.Context, store objstore.Store, lineage string) ([]Entry, error) {
	return nil, errors.ErrUnsupported
}

// Delete removes a backup: first its manifest, then its packs that no other manifest of the lineage
// points at. It may be repeated after a crash or an error; a backup that isn't there is no error.
// It returns the bytes that were freed this time.
func Delete(ctx context.Context, store objstore.Store, lineage, id string) (int64, error) {
	return 0, errors.ErrUnsupported
}

// SweepOrphans removes the packs of backups that have no manifest and for which running says that
// nobody is writing them, unless another manifest points at them. It returns the ids it cleaned.
func SweepOrphans(ctx context.Context, store objstore.Store, lineage string, running func(id string) bool) ([]string, error) {
	return nil, errors.ErrUnsupported
}
