// Package objstore is what Howdah needs of an object store, and no more: whole objects, put
// atomically, read in ranges, listed in order. Drivers translate to it; wrappers add retries.
package objstore

import (
	"context"
	"iter"
	"time"
)

// Store is a flat space of objects under one bucket and prefix. Keys are relative to the prefix,
// separated by slashes, without a leading one; no key may be a folder of another (a/b beside a/b/c),
// because not every server can hold both. Every method is safe for concurrent use and gives up
// when ctx ends. Errors wrap one of this package's sentinels, and say which key they are about.
//
// What Howdah relies on, and storetest checks:
//   - A put is atomic: a reader sees the whole object or none of it, also if the writer dies.
//   - A put that was acknowledged is seen by every later Get, ReadAt, Stat and List.
//   - PutOptions.IfAbsent is decided by the server: of several writers exactly one succeeds.
type Store interface {
	// Put stores body under key. The body is only read, and not kept after Put returns.
	//
	// With IfAbsent a taken key is ErrExists. After a connection broke, a repeated put may find its
	// own earlier attempt: who gets ErrExists has to compare what is there with what it wanted.
	Put(ctx context.Context, key string, body []byte, opts PutOptions) error

	// Get reads a whole object of at most limit bytes; a larger one is ErrTooLarge.
	Get(ctx context.Context, key string, limit int64) ([]byte, error)

	// ReadAt fills p with the object's bytes from off. If the object ends before p is full, it
	// returns the bytes there were and ErrTorn.
	ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error)

	// Stat says how large an object is, or ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the objects whose keys start with prefix and are greater than after, in the order
	// of their keys' bytes. It ends at the first error, which it yields. Both may be empty.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]

	// Folders yields, in order, the names between prefix and the next slash of all keys that have
	// one, without listing what is in them. The prefix is empty or ends with a slash.
	Folders(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Delete removes objects. One that is not there counts as removed.
	Delete(ctx context.Context, keys ...string) error

	// Kept says what the bucket keeps of what was deleted or replaced below the store's prefix. It reads the list of all
	// versions where there are any. Who may not ask gets ErrDenied.
	Kept(ctx context.Context) (Kept, error)

	// Locks are the object locks of the bucket.
	Locks() Locker
}

// PutOptions change how an object is put.
type PutOptions struct {
	// IfAbsent refuses the put with ErrExists when the key is taken.
	IfAbsent bool
	// CRC32C is the checksum of the body, if that is known already; else the store computes it. A body that is another on its
	// arrival is refused with ErrUnavailable, and nothing is stored.
	CRC32C *uint32
}

// Info is what a store knows about an object without reading it.
type Info struct {
	Key      string
	Size     int64     // bytes
	Modified time.Time // by the server's clock
}
