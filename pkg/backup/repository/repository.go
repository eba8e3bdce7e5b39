// Package repository knows what lies where in a bucket, marks a repository, and keeps the lineages
// of several writers apart.
package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Format is the version of the bucket's layout that this code reads and writes.
const Format = 1

// What can be wrong, for errors.Is.
var (
	// ErrForeign is a lineage that another cluster writes to.
	ErrForeign = errors.New("lineage belongs to another writer")
	// ErrFormat is a repository of a version that this code doesn't know.
	ErrFormat = errors.New("unknown repository format")
	// ErrName is a lineage, backup or WAL file name that can't be part of a key.
	ErrName = errors.New("bad name")
)

// Marker is howdah.json at the root of a repository.
type Marker struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Encryption must be empty: this version knows none.
	Encryption string `json:"encryption,omitempty"`
}

// Writer is who writes to a lineage. It is compared by UID, and named in refusals.
type Writer struct {
	UID       string `json:"uid"` // of the PostgresCluster
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String names the writer for a person.
func (w Writer) String() string {
	if w.Name == "" {
		return "cluster with UID " + w.UID
	}
	return fmt.Sprintf("cluster %s/%s (UID %s)", w.Namespace, w.Name, w.UID)
}

// Lineage is lineage.json: who writes here, and what every reader of the WAL must know.
type Lineage struct {
	Format           int       `json:"format"`
	Lineage          string    `json:"lineage"`
	Writer           Writer    `json:"writer"`
	SystemIdentifier string    `json:"systemIdentifier"` // decimal, as PostgreSQL prints it
	Generation       string    `json:"generation"`       // data generation
	SegmentSize      uint64    `json:"segmentSize"`      // of WAL, bytes
	PGMajor          int       `json:"pgMajor,omitempty"`
	Created          time.Time `json:"created"`
}

// LineageName is the name of the lineage of a data generation.
func LineageName(systemIdentifier, generation string) string {
	return systemIdentifier + "-" + generation
}

// Ensure marks the store as a repository, or checks the mark that is there (ErrFormat).
func Ensure(ctx context.Context, store objstore.Store, now time.Time) (Marker, error) {
	return Marker{}, errors.ErrUnsupported
}

// ReadMarker reads howdah.json; objstore.ErrNotFound means that this is no repository (yet).
func ReadMarker(ctx context.Context, store objstore.Store) (Marker, error) {
	return Marker{}, errors.ErrUnsupported
}

// Claim makes claim.Writer the one writer of claim.Lineage, once and for all. Who has claimed it
// before gets what is recorded; anybody else gets ErrForeign, which names the owner.
func Claim(ctx context.Context, store objstore.Store, claim Lineage) (Lineage, error) {
	return Lineage{}, errors.ErrUnsupported
}

// ReadLineage reads lineage.json.
func ReadLineage(ctx context.Context, store objstore.Store, lineage string) (Lineage, error) {
	return Lineage{}, errors.ErrUnsupported
}

// Lineages lists the names of all lineages, in order.
func Lineages(ctx context.Context, store objstore.Store) ([]string, error) {
	return nil, errors.ErrUnsupported
}
