// Package wal keeps the write-ahead log of a lineage in an object store: one compressed, checksummed
// object for each file that PostgreSQL archives.
package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// What can be wrong, for errors.Is, besides objstore's sentinels.
var (
	// ErrConflict is a name that is taken by a different content. It is a *ConflictError.
	ErrConflict = errors.New("archive holds a different file of this name")
	// ErrCorrupt is an object whose bytes are not what was stored.
	ErrCorrupt = objstore.ErrCorrupt
	// ErrFormat is an object of a version that this code doesn't know.
	ErrFormat = errors.New("unknown WAL format")
)

// Header stands before the content of every archived file, and can be read without it.
type Header struct {
	Name    string `json:"name"`
	RawSize int64  `json:"rawSize"` // bytes of the content
	CRC32C  uint32 `json:"crc32c"`  // of the content
	// MinLZ is how often the content was compressed with MinLZ, before zstd or without it.
	MinLZ int `json:"minlz,omitempty"`
	Info
}

// Info is what the archiver knows about a file. All but Writer may be empty.
type Info struct {
	// Writer names who archived it, for a person: cluster, pod and UID.
	Writer string `json:"writer"`
	// StartLSN and EndLSN bound the WAL in the file: EndLSN is the end of the last record that is whole.
	StartLSN postgres.LSN `json:"startLSN,omitempty"`
	EndLSN   postgres.LSN `json:"endLSN,omitempty"`
	// FirstCommit and LastCommit are the times of the first and last commit record in the file, nil
	// if it holds none.
	FirstCommit *time.Time `json:"firstCommit,omitempty"`
	LastCommit  *time.Time `json:"lastCommit,omitempty"`
	// RestorePoints in the file, in order.
	RestorePoints []RestorePoint `json:"restorePoints,omitempty"`
	// SegmentSize of a segment that is still written, of which this is a piece; else 0.
	SegmentSize int64 `json:"segmentSize,omitempty"`
}

// RestorePoint is a name that pg_create_restore_point gave to a position.
type RestorePoint struct {
	Name string       `json:"name"`
	LSN  postgres.LSN `json:"lsn"` // where its record begins
	Time time.Time    `json:"time"`
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
	store     objstore.Store
	unpackers sync.Pool

	mu   sync.Mutex
	idle []*object // as many as were in use at a time: a sync.Pool would drop them while others are made
}

// New returns the archive in store.
func New(store objstore.Store) *Archive { return &Archive{store: store} }

// maxStored bounds an archived object: a segment of the largest size, and its header.
const maxStored = postgres.MaxSegSize + 2<<20

// maxSmall bounds the content of what is not a segment: the history of a timeline has a line of some bytes for each failover.
const maxSmall = 1 << 20

// most is how large the content of a file may be, by its name. Readers hold that of small ones.
func most(name string) int64 {
	if strings.HasSuffix(name, ".history") || strings.HasSuffix(name, ".backup") {
		return maxSmall
	}
	return postgres.MaxSegSize
}

// Key is where a file is archived. Names of files that PostgreSQL doesn't archive are refused with
// repository.ErrName.
func Key(lineage, name string) (string, error) {
	if err := layout.CheckName("lineage", lineage); err != nil {
		return "", err
	}
	// The smallest size of segments allows the most names; a name says nothing about the size.
	file, err := postgres.ParseWALName(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", layout.ErrName, err)
	}
	if file.Kind == postgres.WALSegment || file.Kind == postgres.WALPartial {
		return layout.TimelinePrefix(lineage, file.Timeline) + name, nil
	}
	return layout.HistoryPrefix(lineage) + name, nil
}

// Put archives the content of one file: a segment, a partial segment, a timeline history or a backup
// history. It returns when the store has acknowledged it. Putting the same content again succeeds;
// a different one is a *ConflictError, and what was there stays.
func (a *Archive) Put(ctx context.Context, lineage, name string, content []byte, info Info) error {
	return a.PutFrom(ctx, lineage, name, int64(len(content)), Thorough, func(w io.Writer) (Info, error) {
		_, err := w.Write(content)
		return info, err
	})
}

// PutFrom is Put of a content that is never held whole: write writes as many bytes as size says, and finds out meanwhile
// what is known about them. What is held is the compressed content.
func (a *Archive) PutFrom(ctx context.Context, lineage, name string, size int64, effort Effort, write func(io.Writer) (Info, error)) error {
	key, err := Key(lineage, name)
	if err != nil {
		return err
	}
	return a.put(ctx, lineage, key, name, size, effort, write)
}

func (a *Archive) put(ctx context.Context, lineage, key, name string, size int64, effort Effort, write func(io.Writer) (Info, error)) error {
	if size > most(name) {
		return fmt.Errorf("%s has %d bytes, and no reader takes more than %d", name, size, most(name))
	}
	o := a.object()
	o.begin(effort, size)
	info, err := write(o)
	if err != nil {
		return err
	}
	body, header, err := o.seal(name, size, info)
	if err != nil {
		return err
	}
	err = a.store.Put(ctx, key, body, objstore.PutOptions{IfAbsent: true, CRC32C: &o.sum})
	taken := errors.Is(err, objstore.ErrExists)
	if err != nil && !taken {
		return err // a request that was given up may still be reading the body: nobody else may write there
	}
	defer a.keep(o)
	if taken {
		return a.compare(ctx, lineage, key, header, o.compressed())
	}
	return nil
}

// object takes one that is kept, or makes one.
func (a *Archive) object() *object {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.idle) - 1
	if last < 0 {
		return newObject()
	}
	o := a.idle[last]
	a.idle = a.idle[:last]
	return o
}

func (a *Archive) keep(o *object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, o)
}

// Release lets go of the memory that is kept for further files.
func (a *Archive) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = nil
}

// read gets an object, and returns its header and its frame, which is what was stored.
func (a *Archive) read(ctx context.Context, key, name string) ([]byte, Header, error) {
	object, err := a.store.Get(ctx, key, most(name)+maxStored-postgres.MaxSegSize)
	if err != nil {
		return nil, Header{}, err
	}
	header, frame, err := open(object, name)
	if err != nil {
		return nil, header, fmt.Errorf("%s: %w", key, err)
	}
	return frame, header, nil
}

func (a *Archive) decompress(frame []byte, header Header, w io.Writer) error {
	one, ok := a.unpackers.Get().(*unpacker)
	if !ok {
		one = &unpacker{}
	}
	defer a.unpackers.Put(one)
	return one.decompress(frame, header, w)
}

// Get reads one file, checked against its checksum. objstore.ErrNotFound: it isn't archived;
// ErrCorrupt: it is damaged. A segment that is still written is there as far as it is archived, with zeroes after.
func (a *Archive) Get(ctx context.Context, lineage, name string) ([]byte, Header, error) {
	content := bytes.Buffer{}
	header, err := a.GetTo(ctx, lineage, name, &content)
	if err != nil {
		return nil, header, err
	}
	return content.Bytes(), header, nil
}

// GetTo is Get of a content that is never held whole. It is written before it is checked to its end: after an error what
// was written must not be used.
func (a *Archive) GetTo(ctx context.Context, lineage, name string, w io.Writer) (Header, error) {
	key, err := Key(lineage, name)
	if err != nil {
		return Header{}, err
	}
	return orOpen(name, func() (Header, error) { return a.getWhole(ctx, key, name, w) },
		func() (Header, error) { return a.getOpen(ctx, lineage, name, w) })
}

func (a *Archive) getWhole(ctx context.Context, key, name string, w io.Writer) (Header, error) {
	frame, header, err := a.read(ctx, key, name)
	if err != nil {
		return header, err
	}
	err = a.decompress(frame, header, w)
	if errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return header, err
}

// headerGuess is enough for a header, mostly.
const headerGuess = 1 << 10

// ReadHeader reads the header only, by one small ranged read.
func (a *Archive) ReadHeader(ctx context.Context, lineage, name string) (Header, error) {
	key, err := Key(lineage, name)
	if err != nil {
		return Header{}, err
	}
	return orOpen(name, func() (Header, error) { return a.readHeader(ctx, key, name) },
		func() (Header, error) { return a.headerOfOpen(ctx, lineage, name) })
}

func (a *Archive) readHeader(ctx context.Context, key, name string) (Header, error) {
	for size := headerGuess; ; {
		b := make([]byte, size)
		n, err := a.store.ReadAt(ctx, key, b, 0)
		if err != nil && !errors.Is(err, objstore.ErrTorn) {
			return Header{}, err
		}
		header, _, err := parseHeader(b[:n], name)
		var short *envelope.ShortError
		if errors.As(err, &short) && n == size {
			size = short.Need
			continue
		}
		if err != nil {
			return Header{}, fmt.Errorf("%s: %w", key, err)
		}
		return header.Header, nil
	}
}
