// Package wal keeps the write-ahead log of a lineage in an object store: one compressed, checksummed
// object for each file that PostgreSQL archives.
package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/backup/repository"
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
	// RestorePoints in the file, in order.
	RestorePoints []RestorePoint `json:"restorePoints,omitempty"`
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
	store    objstore.Store
	encoders sync.Pool
}

// New returns the archive in store.
func New(store objstore.Store) *Archive { return &Archive{store: store} }

// maxStored bounds an archived object: a segment of the largest size, and its header.
const maxStored = postgres.MaxSegSize + 2<<20

// Key is where a file is archived. Names of files that PostgreSQL doesn't archive are refused with
// repository.ErrName.
func Key(lineage, name string) (string, error) {
	if err := repository.CheckName("lineage", lineage); err != nil {
		return "", err
	}
	// The smallest size of segments allows the most names; a name says nothing about the size.
	file, err := postgres.ParseWALFile(name, postgres.MinSegSize)
	if err != nil {
		return "", fmt.Errorf("%w: %w", repository.ErrName, err)
	}
	if file.Kind == postgres.WALSegment || file.Kind == postgres.WALPartial {
		return repository.TimelinePrefix(lineage, file.Timeline) + name, nil
	}
	return repository.HistoryPrefix(lineage) + name, nil
}

// Put archives the content of one file: a segment, a partial segment, a timeline history or a backup
// history. It returns when the store has acknowledged it. Putting the same content again succeeds;
// a different one is a *ConflictError, and what was there stays.
func (a *Archive) Put(ctx context.Context, lineage, name string, content []byte, info Info) error {
	key, err := Key(lineage, name)
	if err != nil {
		return err
	}
	object, err := a.encode(name, content, info)
	if err != nil {
		return err
	}
	err = a.store.Put(ctx, key, object, objstore.PutOptions{IfAbsent: true})
	if errors.Is(err, objstore.ErrExists) {
		return a.compare(ctx, lineage, name, content, info)
	}
	return err
}

// compare tells a repeated put from a second writer.
func (a *Archive) compare(ctx context.Context, lineage, name string, content []byte, info Info) error {
	there, header, err := a.Get(ctx, lineage, name)
	if err != nil {
		return fmt.Errorf("%s is archived already, and can't be compared: %w", name, err)
	}
	if !bytes.Equal(there, content) {
		return &ConflictError{Lineage: lineage, Name: name, Writer: info.Writer, Other: header.Writer}
	}
	return nil
}

// Get reads one file, checked against its checksum. objstore.ErrNotFound: it isn't archived;
// ErrCorrupt: it is damaged.
func (a *Archive) Get(ctx context.Context, lineage, name string) ([]byte, Header, error) {
	key, err := Key(lineage, name)
	if err != nil {
		return nil, Header{}, err
	}
	object, err := a.store.Get(ctx, key, maxStored)
	if err != nil {
		return nil, Header{}, err
	}
	content, header, err := decode(object, name)
	if err != nil {
		return nil, header, fmt.Errorf("%s: %w", key, err)
	}
	return content, header, nil
}

// headerGuess is enough for a header, mostly.
const headerGuess = 1 << 10

// ReadHeader reads the header only, by one small ranged read.
func (a *Archive) ReadHeader(ctx context.Context, lineage, name string) (Header, error) {
	key, err := Key(lineage, name)
	if err != nil {
		return Header{}, err
	}
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
