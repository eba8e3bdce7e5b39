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
	// ErrCorrupt is a stored object whose bytes are not what was stored. It is a *CorruptError, or what the store found.
	ErrCorrupt = objstore.ErrCorrupt
	// ErrDamagedPages is a data directory with pages that fail their checksum. It is a *DamageError.
	ErrDamagedPages = errors.New("damaged pages")
	// ErrWALMissing is WAL that did not reach the archive in time; the backup was not committed.
	ErrWALMissing = errors.New("WAL is missing from the archive")
	// ErrIncomplete is a restore's target that is not empty, or a source that isn't PGDATA.
	ErrTarget = errors.New("unusable directory")
	// ErrControl is a control file that is damaged: no server starts on it.
	ErrControl = errors.New("the control file global/pg_control is damaged")
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

// DamageError is damage in the data directory itself.
type DamageError struct{ Damage }

// Damage lists pages that failed their checksum when they were read.
type Damage struct {
	Count int          `json:"count"` // of all
	Pages DamagedPages `json:"pages"` // the first hundred
}

// DamagedPage is one page that fails its checksum.
type DamagedPage struct {
	File  string       `json:"file"`  // relative to PGDATA
	Block uint32       `json:"block"` // within the relation, counted over its segment files
	LSN   postgres.LSN `json:"lsn"`   // as the page says
}

// Compression is the effort to make a backup small.
type Compression string

// The compressions. Those that the API offers have the same names there.
const (
	CompressionBalanced Compression = "Balanced" // the default: little CPU for a full backup, little to store for an incremental one
	CompressionFast     Compression = "Fast"     // a third of the CPU, and half as much again to store
	CompressionSmall    Compression = "Small"    // a little smaller than the default
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
	CheckControl     bool // the control file has its checksum, as every real one: check it
	WALSegmentSize   uint64
	Cluster          Cluster
}

// Options change how a backup is written.
type Options struct {
	// ID names the backup in its lineage: letters, digits, dots and dashes. Repeating an id that is
	// committed is a no-op which returns its manifest.
	ID string
	// Parent is the id of a backup of the lineage to build on: only what changed since is copied. Where that can't be,
	// the backup is a full one, and Header.Why says why. Empty: a full backup.
	Parent string
	// Tool is the version that is recorded.
	Tool        string
	Compression Compression
	// Workers read and compress in parallel; 0 is the number of CPUs, at most 8.
	Workers int
	// MemoryLimit bounds the buffers in bytes; 0 is 80 MiB. Frames, packs in flight and workers are
	// cut to fit.
	MemoryLimit int64
	// MaxBytesPerSecond bounds what is read from the data directory; 0 is no bound.
	MaxBytesPerSecond int64
	// WALTimeout is how long to wait for the last WAL segments after the copy; 0 waits until ctx ends.
	WALTimeout time.Duration
	// WALPoll is the longest time between two looks at the archive, of which the first are closer; 0 is a quarter of a second.
	WALPoll time.Duration
	// ReportDamage takes the backup although pages fail their checksum, and lists them in Header.Damage. Without it, they are
	// an ErrDamagedPages.
	ReportDamage bool
	// Progress is called about every second and at the end, from one goroutine at a time.
	Progress func(Progress)
	// Now is the clock of object locks; nil is time.Now.
	Now func() time.Time
	// Memory is what the process may use, in bytes; 0 if nothing bounds that. A backup of more files than fit is an ErrMemory.
	Memory int64

	mostParts int   // instead of manyParts, in tests
	mostNames int64 // bytes of the names of packs in a header, in tests
}

// Phase is what Write or Restore is busy with.
type Phase string

// The phases; a restore knows only Copying and Syncing.
const (
	Starting   Phase = "Starting"   // waiting for the checkpoint
	Comparing  Phase = "Comparing"  // of Compare
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
	Taken  int64 // of what is done, from RestoreOptions.Present or what was in place
}

// RestoreOptions change how a backup is restored.
type RestoreOptions struct {
	// Tablespaces maps the OID of a tablespace to the directory for it. One that isn't named is
	// restored in place, as a folder in pg_tblspc.
	Tablespaces map[string]string
	// Present is a data directory, such as the previous one, from which frames are taken that it still holds. Nothing is
	// changed there, nobody may write there meanwhile, and what can't be read is fetched. It may be missing. On a file system
	// whose files can share blocks the target shares with it what is the same, and only the rest is written.
	Present string
	// InPlace lets the target, and the directories of Tablespaces, hold files already, such as the previous data, of which
	// what is as in the backup stays. All else is changed to be so: whatever the backup doesn't have there is removed. After
	// an error they are neither as before nor as in the backup, and another restore in place continues. Not with Present.
	InPlace bool
	// Difference is what Compare has found in the target, which nobody may have changed since. Without it a restore in place
	// finds that out itself.
	Difference  *Difference
	Workers     int   // 0 is the number of CPUs, at most 8
	MemoryLimit int64 // of buffers in bytes; 0 is 80 MiB
	Progress    func(Progress)
}
