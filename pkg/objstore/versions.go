package objstore

import (
	"context"
	"iter"
)

// Version is one state of an object in a bucket that keeps what was deleted or replaced.
type Version struct {
	Info
	// ID names the version in its bucket.
	ID string
	// Latest is what readers see who ask for no version.
	Latest bool
	// Deleted: from Modified on there was no object of the key.
	Deleted bool
}

// Versioned is a Store whose bucket may keep versions. Package asof reads it as it was at a time.
type Versioned interface {
	Store

	// KeepsVersions says whether the bucket keeps what is deleted or replaced.
	KeepsVersions(ctx context.Context) (bool, error)

	// Versions yields all versions of the objects whose keys start with prefix and are greater than after, in the order of
	// their keys' bytes; those of one key follow each other in any order. It ends at the first error, which it yields.
	Versions(ctx context.Context, prefix, after string) iter.Seq2[Version, error]

	// GetVersion is Get of one version, and ReadVersionAt is ReadAt.
	GetVersion(ctx context.Context, key, id string, limit int64) ([]byte, error)
	ReadVersionAt(ctx context.Context, key, id string, p []byte, off int64) (int, error)
}
