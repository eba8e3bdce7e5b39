package backup

import (
	"encoding/json"
	"io/fs"
	"time"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/postgres"
)

// FormatVersion is the version of manifests and packs that this code writes. It reads those from format.Oldest on.
const FormatVersion = format.Current

// Type is how much of a backup its own packs hold.
type Type string

// A Full backup points only into its own packs, an Incremental one also into those of others.
const (
	Full        Type = "full"
	Incremental Type = "incremental"
)

// Comparison is how it is known which blocks have changed since another backup.
type Comparison string

// By what WAL summaries say, or by the LSN that is in each page.
const (
	BySummaries Comparison = "walSummaries"
	ByPages     Comparison = "pageLSNs"
)

// Manifest describes one backup completely. Its object is the backup's commit.
type Manifest struct {
	Header
	Files []File
}

// Header is what can be read of a manifest without its files.
type Header struct {
	Format  int    `json:"format"`
	ID      string `json:"id"`
	Lineage string `json:"lineage"`
	Type    Type   `json:"type"`
	Parent  string `json:"parent,omitempty"` // id of the backup an incremental compared itself with
	Why     string `json:"why,omitempty"`    // why it is a full one, although it should have been incremental
	// Compared is how an incremental one knew what had changed.
	Compared Comparison `json:"compared,omitempty"`
	Tool     string     `json:"tool"` // version that wrote it
	// Encryption must be empty: this version knows none.
	Encryption string `json:"encryption,omitempty"`

	SystemIdentifier string `json:"systemIdentifier"`
	PGVersion        string `json:"pgVersion"` // such as 17.5
	PGMajor          int    `json:"pgMajor"`
	DataChecksums    bool   `json:"dataChecksums"` // the cluster has page checksums, and they were checked
	// Damage is in the pages of this backup, as it was in the data directory; nil: none was found.
	Damage *Damage `json:"damage,omitempty"`
	// Locked is until when the bucket keeps what the backup consists of, as it was when the backup was committed; nil: not known.
	Locked *Locked `json:"locked,omitempty"`

	StartLSN  postgres.LSN `json:"startLSN"`
	StopLSN   postgres.LSN `json:"stopLSN"` // consistent from here on
	Timeline  uint32       `json:"timeline"`
	StartTime time.Time    `json:"startTime"`
	StopTime  time.Time    `json:"stopTime"`
	WAL       WALRange     `json:"wal"`

	BackupLabel   string `json:"backupLabel"`
	TablespaceMap string `json:"tablespaceMap,omitempty"`

	Cluster Cluster `json:"cluster"`
	Totals  Totals  `json:"totals"`
	// Packs that the frames of Files point into, by index.
	Packs Packs `json:"packs"`

	list      fileList // once the header was read
	packCount int
	packBytes int64 // of all packs, once the header was read
}

// fileList is where the list of files lies in a manifest.
type fileList struct {
	begin, stored int64 // bytes of the object
	size          int64 // of the list
	crc           uint32
}

// WALRange is the WAL without which the backup can't be restored, by the names of its segments.
type WALRange struct {
	SegmentSize uint64 `json:"segmentSize"` // bytes
	First       string `json:"first"`
	Last        string `json:"last"`
}

// Cluster is what was backed up.
type Cluster struct {
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	Instance   string `json:"instance,omitempty"`   // the pod that was read
	Generation string `json:"generation,omitempty"` // data generation
	Image      string `json:"image,omitempty"`      // of PostgreSQL, that ran it
	// Object is the PostgresCluster without its status, as JSON, so that it can be made again.
	Object json.RawMessage `json:"object,omitempty"`
	// Secrets with its logins; none unless the repository is encrypted.
	Secrets Secrets `json:"secrets,omitempty"`
}

// Totals are sizes in bytes and counts.
type Totals struct {
	Files        int   `json:"files"`        // regular files
	LogicalBytes int64 `json:"logicalBytes"` // content of all files: what a restore writes
	CopiedBytes  int64 `json:"copiedBytes"`  // content that this backup added: all of it, but for an incremental one
	StoredBytes  int64 `json:"storedBytes"`  // what this backup added to the bucket, the manifest apart
	Frames       int   `json:"frames"`
}

// Pack is one object with frames.
type Pack struct {
	Backup string `json:"backup"` // id of the backup that wrote it
	Name   string `json:"name"`   // below lineages/<lineage>/packs/<backup>/
	Size   int64  `json:"size"`   // bytes
}

// Kind is what a File is.
type Kind string

// The kinds of files.
const (
	Regular    Kind = "file"
	Dir        Kind = "dir"
	Symlink    Kind = "symlink"
	Tablespace Kind = "tablespace" // pg_tblspc/<oid>: Link is where it was; its files follow below its path
)

// File is one file of PGDATA.
type File struct {
	Path  string      // relative to PGDATA, with slashes
	Kind  Kind        //
	Mode  fs.FileMode // permission bits
	Size  int64       // bytes, of a regular file
	MTime time.Time   // as it was when it was read
	Link  string      // target of a Symlink or Tablespace
	// Parts in the order of their offsets. What they leave out below Size is zero.
	Parts []Part
}

// Part is a run of a file's bytes within a frame. There may be a million of them, many to a frame, so
// it is kept small.
type Part struct {
	FileOffset int64  // where the run starts in the file
	Length     uint32 // bytes
	Skip       uint32 // where the run starts in the frame's content: small files share a frame
	Frame      *Frame // which other parts may have, too
}

// Frame is a run of bytes that was compressed on its own.
type Frame struct {
	Pack       uint32 // index into Header.Packs
	Offset     uint32 // in the pack
	Stored     uint32 // bytes in the pack
	Content    uint32 // bytes of content
	StoredCRC  uint32 // CRC-32C of the stored bytes
	ContentCRC uint32 // CRC-32C of the content
	Digest     uint64 // of the content, by the secret of its pack; 0: not known
	Coding     codec.Coding
}
