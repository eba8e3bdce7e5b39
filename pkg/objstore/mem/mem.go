// Package mem is a Store in memory, for tests.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Store keeps objects in a map. The zero value is not ready; use New.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	now     func() time.Time
}

type object struct {
	body     []byte
	modified time.Time
}

// New returns an empty store.
func New() *Store { return NewAt(time.Now) }

// NewAt returns an empty store with a clock of its own.
func NewAt(now func() time.Time) *Store { return &Store{objects: map[string]object{}, now: now} }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func fail(op, key string, kind error) error {
	return &objstore.Error{Op: op, Key: key, Bucket: "mem", Kind: kind}
}

// Put keeps a copy of body.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if opts.CRC32C != nil && *opts.CRC32C != crc32.Checksum(body, castagnoli) {
		return fail("put", key, objstore.ErrUnavailable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && opts.IfAbsent {
		return fail("put", key, objstore.ErrExists)
	}
	s.objects[key] = object{body: bytes.Clone(body), modified: s.now()}
	return nil
}

func (s *Store) find(ctx context.Context, op, key string) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.objects[key]
	if !ok {
		return object{}, fail(op, key, objstore.ErrNotFound)
	}
	return found, nil
}

// Get returns a copy of the object.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	found, err := s.find(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	if int64(len(found.body)) > limit {
		return nil, fail("get", key, objstore.ErrTooLarge)
	}
	return bytes.Clone(found.body), nil
}

// ReadAt copies a part of the object.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	found, err := s.find(ctx, "read", key)
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", key, off)
	}
	n := copy(p, found.body[min(off, int64(len(found.body))):])
	if n < len(p) {
		return n, fail("read", key, objstore.ErrTorn)
	}
	return n, nil
}

// Stat returns the object's size.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	found, err := s.find(ctx, "stat", key)
	if err != nil {
		return objstore.Info{}, err
	}
	return objstore.Info{Key: key, Size: int64(len(found.body)), Modified: found.modified}, nil
}

// List yields what is there at its start.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for _, info := range s.snapshot(prefix, after) {
			if err := ctx.Err(); err != nil {
				yield(objstore.Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Folders yields the names below prefix.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		last := ""
		for _, info := range s.snapshot(prefix, "") {
			name, _, isFolder := strings.Cut(info.Key[len(prefix):], "/")
			if !isFolder || name == last {
				continue
			}
			last = name
			if !yield(name, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}

func (s *Store) snapshot(prefix, after string) []objstore.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []objstore.Info
	for key, o := range s.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			infos = append(infos, objstore.Info{Key: key, Size: int64(len(o.body)), Modified: o.modified})
		}
	}
	slices.SortFunc(infos, func(a, b objstore.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos
}

// Delete removes the objects.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.objects, key)
	}
	return nil
}

// Locks are none.
func (s *Store) Locks() objstore.Locker { return objstore.NoLocks{} }

// Kept is nothing.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) { return objstore.Kept{}, ctx.Err() }
