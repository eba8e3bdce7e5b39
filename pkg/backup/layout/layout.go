// Package layout is the layout of a repository: it says which object lies where in a bucket, marks the repository with the
// version of its format, and keeps the lineages of several writers apart.
package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// What can be wrong, for errors.Is.
var (
	// ErrForeign is a lineage that another cluster writes to.
	ErrForeign = errors.New("lineage belongs to another writer")
	// ErrReplaced is a repository that is not the one that was there before.
	ErrReplaced = errors.New("another repository than before")
	// ErrFormat is a repository of a version that this code doesn't know.
	ErrFormat = errors.New("unknown repository format")
	// ErrName is a lineage, backup or WAL file name that can't be part of a key.
	ErrName = errors.New("bad name")
)

// Marker is howdah.json at the root of a repository.
type Marker struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Encryption is EncryptionAES or empty: the objects are plain.
	Encryption string `json:"encryption,omitempty"`
	// Authentication is AuthenticationHMAC or empty: whether plain objects have a signature is not looked at.
	Authentication string `json:"authentication,omitempty"`
	// ID is the identity of a repository that is encrypted or signed: random, and part of all that its keys seal. It is empty
	// in those that were made before there was one.
	ID string `json:"id,omitempty"`
}

// AuthenticationHMAC says that all objects but howdah.json and the data keys are signed, as package sealed does it.
const AuthenticationHMAC = "HMAC-SHA-256"

// EncryptionAES says that all objects but howdah.json and the data keys are sealed, as package sealed does it.
const EncryptionAES = "AES-256-GCM"

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
	marker, err := ReadMarker(ctx, store)
	if !errors.Is(err, objstore.ErrNotFound) {
		return marker, err
	}
	err = putJSON(ctx, store, MarkerKey, Marker{Format: format.Current, Created: now.UTC()})
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return Marker{}, err
	}
	return ReadMarker(ctx, store)
}

// ReadMarker reads howdah.json; objstore.ErrNotFound means that this is no repository (yet).
func ReadMarker(ctx context.Context, store objstore.Store) (Marker, error) {
	marker := Marker{}
	if err := getJSON(ctx, store, MarkerKey, &marker); err != nil {
		return Marker{}, err
	}
	if err := format.Check(marker.Format); err != nil {
		return Marker{}, fmt.Errorf("%w: %s: %w", ErrFormat, MarkerKey, err)
	}
	if marker.Encryption != "" && marker.Encryption != EncryptionAES {
		return Marker{}, fmt.Errorf("%w: %s says encryption %q, and this version knows %s", ErrFormat, MarkerKey, marker.Encryption, EncryptionAES)
	}
	return marker, marker.validate()
}

// Identity tells repositories apart: by their random identity, or, of those that have none, by when they were created.
func (m Marker) Identity() string {
	if m.ID != "" {
		return m.ID
	}
	return m.Created.UTC().Format(time.RFC3339Nano)
}

// EnsureSame is Ensure for a repository whose identity is known: one that is another, or that has no mark any more, is ErrReplaced.
// Without a known identity the store is marked where it has no mark yet.
func EnsureSame(ctx context.Context, store objstore.Store, known string, now time.Time) error {
	if known == "" {
		_, err := Ensure(ctx, store, now)
		return err
	}
	marker, err := ReadMarker(ctx, store)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("%w: there is no %s any more, and it was repository %s", ErrReplaced, MarkerKey, known)
	case err == nil && marker.Identity() != known:
		return fmt.Errorf("%w: %s says that this is repository %s, and it was %s", ErrReplaced, MarkerKey, marker.Identity(), known)
	}
	return err
}

var identity = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (m Marker) validate() error {
	switch {
	case m.Authentication != "" && m.Authentication != AuthenticationHMAC:
		return fmt.Errorf("%w: %s says authentication %q, and this version knows %s", ErrFormat, MarkerKey, m.Authentication, AuthenticationHMAC)
	case m.Authentication != "" && m.Encryption != "":
		return fmt.Errorf("%w: %s says both authentication and encryption", ErrFormat, MarkerKey)
	case m.ID != "" && !identity.MatchString(m.ID):
		return fmt.Errorf("%w: the identity in %s is not 32 hexadecimal digits", ErrFormat, MarkerKey)
	}
	return nil
}

// Claim makes claim.Writer the one writer of claim.Lineage, once and for all. Who has claimed it
// before gets what is recorded; anybody else gets ErrForeign, which names the owner.
func Claim(ctx context.Context, store objstore.Store, claim Lineage) (Lineage, error) {
	if err := claim.validate(); err != nil {
		return Lineage{}, err
	}
	claim.Format = format.Current
	err := putJSON(ctx, store, LineageKey(claim.Lineage), claim)
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return Lineage{}, err
	}
	recorded, err := ReadLineage(ctx, store, claim.Lineage)
	if err != nil {
		return Lineage{}, err
	}
	if recorded.Writer.UID != claim.Writer.UID {
		return recorded, fmt.Errorf("%w: %s belongs to %v since %s; refused for %v", ErrForeign, claim.Lineage,
			recorded.Writer, recorded.Created.Format(time.RFC3339), claim.Writer)
	}
	return recorded, nil
}

func (l Lineage) validate() error {
	if err := CheckName("lineage", l.Lineage); err != nil {
		return err
	}
	if l.Writer.UID == "" {
		return fmt.Errorf("%w: lineage %s: the writer has no UID", ErrName, l.Lineage)
	}
	for _, text := range []string{l.Writer.UID, l.Writer.Namespace, l.Writer.Name, l.SystemIdentifier, l.Generation} {
		if err := CheckText(text); err != nil {
			return fmt.Errorf("%w: lineage %s: %w", ErrName, l.Lineage, err)
		}
	}
	if err := CheckTime(l.Created); err != nil {
		return fmt.Errorf("%w: lineage %s: %w", ErrFormat, l.Lineage, err)
	}
	if !postgres.ValidSegSize(l.SegmentSize) {
		return fmt.Errorf("%w: lineage %s: WAL segments of %d bytes", ErrFormat, l.Lineage, l.SegmentSize)
	}
	return nil
}

// ReadLineage reads lineage.json.
func ReadLineage(ctx context.Context, store objstore.Store, lineage string) (Lineage, error) {
	if err := CheckName("lineage", lineage); err != nil {
		return Lineage{}, err
	}
	recorded := Lineage{}
	if err := getJSON(ctx, store, LineageKey(lineage), &recorded); err != nil {
		return Lineage{}, err
	}
	if err := format.Check(recorded.Format); err != nil {
		return Lineage{}, fmt.Errorf("%w: %s: %w", ErrFormat, LineageKey(lineage), err)
	}
	if recorded.Lineage != lineage {
		return Lineage{}, fmt.Errorf("%w: %s names lineage %q", ErrFormat, LineageKey(lineage), recorded.Lineage)
	}
	return recorded, recorded.validate()
}

// Damaged says that lineage.json is there and not what a writer of this version wrote, by the error of ReadLineage. Reading it again doesn't
// help.
func Damaged(err error) bool {
	return errors.Is(err, ErrFormat) || errors.Is(err, ErrName) || errors.Is(err, objstore.ErrCorrupt) || errors.Is(err, objstore.ErrTooLarge)
}

// maxLineages bounds a list: a bucket is not trusted, and may claim to have any number of them.
const maxLineages = 1 << 14

// Lineages lists the names of all lineages, in order.
func Lineages(ctx context.Context, store objstore.Store) ([]string, error) {
	var names []string
	for name, err := range store.Folders(ctx, lineagesPrefix) {
		if err != nil {
			return nil, err
		}
		if !namePattern.MatchString(name) {
			continue
		}
		if len(names) == maxLineages {
			return nil, fmt.Errorf("%w: there are more than %d lineages, which is more than is read", ErrFormat, maxLineages)
		}
		names = append(names, name)
	}
	return names, nil
}

// maxJSON bounds the small objects.
const maxJSON = 1 << 20

func putJSON(ctx context.Context, store objstore.Store, key string, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return store.Put(ctx, key, append(body, '\n'), objstore.PutOptions{IfAbsent: true})
}

func getJSON(ctx context.Context, store objstore.Store, key string, value any) error {
	body, err := store.Get(ctx, key, maxJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, key, err)
	}
	return nil
}
