package mem

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Versioned is a Store that keeps what is deleted or replaced, as buckets with versions do.
type Versioned struct {
	*Store
	mu       sync.Mutex
	versions []version // oldest first
	count    int       // of all that there ever were
}

type version struct {
	objstore.Version
	body []byte
}

// NewVersioned returns an empty store with versions and with a clock of its own.
func NewVersioned(now func() time.Time) *Versioned { return &Versioned{Store: NewAt(now)} }

// Put adds a version.
func (s *Versioned) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Store.Put(ctx, key, body, opts); err != nil {
		return err
	}
	info, err := s.Stat(ctx, key)
	if err != nil {
		return err
	}
	s.add(version{objstore.Version{Info: info}, slices.Clone(body)})
	return nil
}

// Delete adds a version without content.
func (s *Versioned) Delete(ctx context.Context, keys ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.add(version{objstore.Version{Info: objstore.Info{Key: key, Modified: s.now()}, Deleted: true}, nil})
	}
	return s.Store.Delete(ctx, keys...)
}

func (s *Versioned) add(v version) {
	for i := range s.versions {
		if s.versions[i].Key == v.Key {
			s.versions[i].Latest = false
		}
	}
	v.ID, v.Latest = fmt.Sprintf("v%d", s.count), true
	s.count++
	s.versions = append(s.versions, v)
}

// KeepsVersions is true.
func (s *Versioned) KeepsVersions(ctx context.Context) (bool, error) { return true, ctx.Err() }

// Versions yields what was there at its start.
func (s *Versioned) Versions(ctx context.Context, prefix, after string) iter.Seq2[objstore.Version, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []objstore.Version
	for _, v := range s.versions {
		if strings.HasPrefix(v.Key, prefix) && v.Key > after {
			found = append(found, v.Version)
		}
	}
	slices.SortStableFunc(found, func(a, b objstore.Version) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(objstore.Version, error) bool) {
		for _, v := range found {
			if !yield(v, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}

func (s *Versioned) content(op, key, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if v.Key == key && v.ID == id && !v.Deleted {
			return v.body, nil
		}
	}
	return nil, fail(op, key, objstore.ErrNotFound)
}

// GetVersion returns a copy of the version.
func (s *Versioned) GetVersion(_ context.Context, key, id string, limit int64) ([]byte, error) {
	body, err := s.content("get", key, id)
	if err == nil && int64(len(body)) > limit {
		err = fail("get", key, objstore.ErrTooLarge)
	}
	return slices.Clone(body), err
}

// ReadVersionAt copies a part of the version.
func (s *Versioned) ReadVersionAt(_ context.Context, key, id string, p []byte, off int64) (int, error) {
	body, err := s.content("read", key, id)
	if err != nil {
		return 0, err
	}
	n := copy(p, body[min(off, int64(len(body))):])
	if n < len(p) {
		return n, fail("read", key, objstore.ErrTorn)
	}
	return n, nil
}

func (s *Versioned) all() []objstore.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]objstore.Version, 0, len(s.versions))
	for _, v := range s.versions {
		all = append(all, v.Version)
	}
	return all
}

// purge removes versions, and marks of deletions among them.
func (s *Versioned) purge(gone func(objstore.Version) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = slices.DeleteFunc(s.versions, func(v version) bool { return gone(v.Version) })
}
