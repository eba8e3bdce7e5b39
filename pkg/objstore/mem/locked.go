package mem

import (
	"context"
	"errors"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Locked is a Store with versions, each of which is locked when it is put, as in a bucket with object lock.
type Locked struct {
	*Versioned
	// Deny refuses to extend locks.
	Deny bool

	mu    sync.Mutex
	rule  objstore.LockRule
	locks map[string]objstore.Lock // by the IDs of versions
	now   func() time.Time
}

// NewLocked returns an empty store with a clock of its own.
func NewLocked(now func() time.Time, rule objstore.LockRule) *Locked {
	return &Locked{Versioned: NewVersioned(now), rule: rule, locks: map[string]objstore.Lock{}, now: now}
}

// Put adds a version, and locks it.
func (s *Locked) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Versioned.Put(ctx, key, body, opts); err != nil {
		return err
	}
	s.locks[s.latest(key)] = objstore.Lock{Mode: s.rule.Mode, Until: s.now().Add(s.rule.For).Truncate(time.Second)}
	return nil
}

// Locks are the store's own.
func (s *Locked) Locks() objstore.Locker { return s }

// LockRule is that of the store.
func (s *Locked) LockRule(ctx context.Context) (objstore.LockRule, error) { return s.rule, ctx.Err() }

// LockOf is the lock of what readers see.
func (s *Locked) LockOf(ctx context.Context, key string) (objstore.Lock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.Stat(ctx, key); err != nil {
		return objstore.Lock{}, err
	}
	return s.locks[s.latest(key)], nil
}

// Lock extends the lock of what readers see.
func (s *Locked) Lock(ctx context.Context, key string, lock objstore.Lock) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.Stat(ctx, key); err != nil {
		return err
	}
	id := s.latest(key)
	if before := s.locks[id]; s.Deny || lock.Until.Before(before.Until) || before.Mode == objstore.LockCompliance && lock.Mode != before.Mode {
		return &objstore.Error{Op: "lock", Key: key, Kind: objstore.ErrDenied, Err: errors.New("a lock does not get shorter or weaker")}
	}
	s.locks[id] = lock
	return nil
}

func (s *Locked) latest(key string) string {
	for _, v := range s.all() {
		if v.Key == key && v.Latest {
			return v.ID
		}
	}
	return ""
}

// Rob removes for good whatever is not locked, as somebody can who has all rights but that to break locks.
func (s *Locked) Rob() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purge(func(v objstore.Version) bool { return !s.locks[v.ID].Until.After(s.now()) })
}
