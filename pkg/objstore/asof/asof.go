// Package asof is a Store that shows a bucket with versions as it was at a time: what was deleted or replaced since, by
// accident or by somebody who should not have been able to, is there. Nothing can be written.
package asof

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Store reads a bucket as it was.
type Store struct {
	bucket objstore.Versioned
	at     time.Time

	mu      sync.Mutex
	checked bool
	ids     map[string]string // of the versions that were found, by key
}

// New returns the store as it was at a time. It doesn't connect.
func New(bucket objstore.Versioned, at time.Time) *Store {
	return &Store{bucket: bucket, at: at, ids: map[string]string{}}
}

// maxKnown bounds what is remembered of versions.
const maxKnown = 1 << 14

// dataKeys are found as they were, and as they are: what the present key of an encrypted repository opens is mostly wrapped by
// that only since it was rotated, and a data key never changes.
const dataKeys = "keys/"

var errNoVersions = errors.New("the bucket keeps no versions, so it can't be read as it was at a time")

// check asks once whether the bucket has versions: without them, what was deleted would be missing without a word.
func (s *Store) check(ctx context.Context) error {
	s.mu.Lock()
	checked := s.checked
	s.mu.Unlock()
	if checked {
		return nil
	}
	keeps, err := s.bucket.KeepsVersions(ctx)
	if err != nil {
		return err
	}
	if !keeps {
		return fmt.Errorf("%w: %w; remove asOf", objstore.ErrConfig, errNoVersions)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = true
	return nil
}

// choose picks of the versions of one key the one that was there at the time.
func (s *Store) choose(versions []objstore.Version) (objstore.Version, bool) {
	chosen, found := newest(versions, func(v objstore.Version) bool { return !v.Modified.After(s.at) })
	if (!found || chosen.Deleted) && strings.HasPrefix(versions[0].Key, dataKeys) {
		chosen, found = newest(versions, func(v objstore.Version) bool { return v.Latest })
	}
	return chosen, found && !chosen.Deleted
}

// newest of some versions. Of two with the same time, the latest is newer, and else the one that has content.
func newest(versions []objstore.Version, among func(objstore.Version) bool) (chosen objstore.Version, found bool) {
	for _, v := range versions {
		if !among(v) {
			continue
		}
		later := v.Modified.Compare(chosen.Modified)
		if !found || later > 0 || later == 0 && (v.Latest || chosen.Deleted && !chosen.Latest) {
			chosen, found = v, true
		}
	}
	return chosen, found
}

// maxVersions bounds what is held of one object: a bucket is not trusted, and a list of it may continue forever.
const maxVersions = 1 << 16

// each calls visit for each key that was there.
func (s *Store) each(ctx context.Context, prefix, after string, visit func(objstore.Version) bool) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	var same []objstore.Version // versions of one key
	flush := func() bool {
		if len(same) == 0 {
			return true
		}
		chosen, found := s.choose(same)
		same = same[:0]
		return !found || visit(chosen)
	}
	for v, err := range s.bucket.Versions(ctx, prefix, after) {
		if err != nil {
			return err
		}
		if len(same) > 0 && same[0].Key != v.Key && !flush() {
			return nil
		}
		if len(same) == maxVersions {
			return fmt.Errorf("there are more than %d versions of %s, which is more than is read", maxVersions, v.Key)
		}
		same = append(same, v)
	}
	flush()
	return nil
}

// find is the version of one object.
func (s *Store) find(ctx context.Context, op, key string) (objstore.Version, error) {
	var found *objstore.Version
	err := s.each(ctx, key, "", func(v objstore.Version) bool {
		if v.Key == key {
			found = &v
		}
		return false // the key itself comes first of all that begin with it
	})
	if err == nil && found == nil {
		err = &objstore.Error{Op: op, Key: key, Kind: objstore.ErrNotFound, Err: fmt.Errorf("it was not there at %s", s.at.UTC().Format(time.RFC3339))}
	}
	if err != nil {
		return objstore.Version{}, err
	}
	return *found, nil
}

// id is that of the version of one object, which is asked for once.
func (s *Store) id(ctx context.Context, op, key string) (string, error) {
	s.mu.Lock()
	known, ok := s.ids[key]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := s.find(ctx, op, key)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) >= maxKnown {
		clear(s.ids)
	}
	s.ids[key] = found.ID
	return found.ID, nil
}

// Get reads the object as it was.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	id, err := s.id(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	return s.bucket.GetVersion(ctx, key, id, limit)
}

// ReadAt reads a part of the object as it was.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	id, err := s.id(ctx, "read", key)
	if err != nil {
		return 0, err
	}
	return s.bucket.ReadVersionAt(ctx, key, id, p, off)
}

// Stat says how large the object was.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	found, err := s.find(ctx, "stat", key)
	return found.Info, err
}

// List yields the objects that were there.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if err := s.each(ctx, prefix, after, func(v objstore.Version) bool { return yield(v.Info, nil) }); err != nil {
			yield(objstore.Info{}, err)
		}
	}
}

// Folders looks for one object in each, and continues after it.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after, more := "", true; more; {
			more = false
			err := s.each(ctx, prefix, after, func(v objstore.Version) bool {
				name, _, folder := strings.Cut(v.Key[len(prefix):], "/")
				if !folder {
					return true
				}
				after, more = prefix+name+"/\U0010FFFF", yield(name, nil)
				return false
			})
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}

// Locks are none: those of what is there now say nothing about what was.
func (s *Store) Locks() objstore.Locker { return objstore.NoLocks{} }

// Kept says what the bucket keeps now.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) { return s.bucket.Kept(ctx) }

func refuse(op, key string) error {
	return &objstore.Error{Op: op, Key: key, Kind: objstore.ErrReadOnly, Err: errors.New("the past can't be changed")}
}

// Put refuses.
func (s *Store) Put(_ context.Context, key string, _ []byte, _ objstore.PutOptions) error {
	return refuse("put", key)
}

// Delete refuses, unless there is nothing to delete.
func (s *Store) Delete(_ context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return refuse("delete", keys[0])
}
