// Package wal keeps the write-ahead log of a lineage in an object store: one compressed, checksummed
// object for each file that PostgreSQL archives.
package wal

import (
	"context"
	"errors"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// What can be wrong, for errors.Is, besides objstore's sentinels.
var (
	// ErrConflict is a name that is taken by a different content. It is a *ConflictError.
	ErrConflict = errors.New("archive holds a different file of this name")
	// ErrCorrupt is an object whose bytes are not what was stored.
	ErrCorrupt = errors.New("corrupt WAL object")
)

// Header stands before the content of every archived file, and can be read without it.
type Header struct {
	Name    string `json:"name"`
	RawSize int64  `json:"rawSize"` // bytes of the content
	CRC32C  uint32 `json:"crc32c"`  // of the content
	Info
}

// Info is what the archiver knows about a file. All but Writer may be empty.
type Info struct {
	// Writer names who archived it, for a person: cluster, pod and UID.
	Writer string `json:"writer"`
	// StartLSN and EndLSN bound the WAL in the file: EndLSN is behind the last record that is whole.
	StartLSN postgres.LSN `json:"startLSN,omitempty"`
	EndLSN   postgres.LSN `json:"endLSN,omitempty"`
	// FirstCommit and LastCommit are the times of the first and last commit record in the file, nil
	// if it holds none.
	FirstCommit *time.Time `json:"firstCommit,omitempty"`
	LastCommit  *time.Time `json:"lastCommit,omitempty"`
}

// ConflictError says that two writers meet in one archive.
type ConflictError struct {
	Lineage, Name string
	Writer        string // who wants to archive now
	Other         string // who archived what is there
}

// Error names both writers.
func (e *ConflictError) Error() string {
	return e.Name + " is in the archive of " + e.Lineage + " already with a different content, put there by " +
		e.Other + "; refused for " + e.Writer
}

// Is makes it an ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Archive reads and writes the WAL of all lineages in one store. It is safe for concurrent use.
type Archive struct {
	store objstore.Store
}

// New returns the archive in store.
func New(store objstore.Store) *Archive { return &Archive{store: store} }

// Put archives the content of one file: a segment, a partial segment, a timeline history or a backup
// history. It returns when the store has acknowledged it. Putting the same content again succeeds;
// a different one is a *ConflictError, and what was there stays.
func (a *Archive) Put(ctx context.Context, lineage, name string, content []byte, info Info) error {
	return errors.ErrUnsupported
}

// Get reads one file, checked against its checksum. objstore.ErrNotFound: it isn't archived;
// ErrCorrupt: it is damaged.
func (a *Archive) Get(ctx context.Context, lineage, name string) ([]byte, Header, error) {
	return nil, Header{}, errors.ErrUnsupported
}

// ReadHeader reads the header only, by one small ranged read.
func (a *Archive) ReadHeader(ctx context.Context, lineage, name string) (Header, error) {
	return Header{}, errors.ErrUnsupported
}

// Coverage is what an archive holds, by the names in it.
type Coverage struct {
	Lineage     string
	SegmentSize uint64 // of the lineage, bytes
	Timelines   []Timeline
	Histories   []string // names of history files, in order
}

// Timeline is the WAL of one timeline.
type Timeline struct {
	ID          uint32
	First, Last postgres.Segment // whole segments
	Segments    int
	Holes       []Hole
	Partial     string // name of a partial segment behind Last, if there is one
	Bytes       int64  // as stored
}

// Hole is a run of segments that are not there, between ones that are.
type Hole struct {
	First, Last postgres.Segment // both missing
}

// Coverage lists the WAL of a lineage. A lineage without WAL has no timelines; one that was never
// claimed is objstore.ErrNotFound.
func (a *Archive) Coverage(ctx context.Context, lineage string) (Coverage, error) {
	return Coverage{}, errors.ErrUnsupported
}

// Horizon is how far the unbroken WAL of one timeline reaches.
type Horizon struct {
	Segment    postgres.Segment // the last one before a hole or the end
	EndLSN     postgres.LSN     // behind the last whole record, or the segment's end if unknown
	LastCommit *time.Time       // of the last commit up to there; nil if none is known
}

// Horizon says how far WAL reaches from the given position without a hole, and the time of the last
// commit in it. objstore.ErrNotFound: not even the segment that holds from is there.
func (a *Archive) Horizon(ctx context.Context, lineage string, timeline uint32, from postgres.LSN) (Horizon, error) {
	return Horizon{}, errors.ErrUnsupported
}

// Missing names the segments that are needed to replay a timeline from one position up to another
// and are not archived, in order. Empty means that all are there.
func (a *Archive) Missing(ctx context.Context, lineage string, timeline uint32, from, to postgres.LSN) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// RemoveBefore removes the segments, of any timeline, that end at or before lsn. History files stay.
// It returns how many objects it removed; repeating it is harmless.
func (a *Archive) RemoveBefore(ctx context.Context, lineage string, lsn postgres.LSN) (int, error) {
	return 0, errors.ErrUnsupported
}
