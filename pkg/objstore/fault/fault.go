// Package fault breaks a store on purpose, for tests.
package fault

import (
	"context"
	"iter"
	"sync"

	"howdah.dev/howdah/pkg/objstore"
)

// Call is one operation on the store, before or after it was done.
type Call struct {
	Number int    // counted from 1 over all operations
	Op     string // put, get, read, stat, list, folders, delete, kept, lock rule, lock of, lock
	Key    string // of a delete the first
}

// Plan decides what happens to a call. Before returning an error means that the operation isn't
// done; After, that it was done but the caller hears of the error instead.
type Plan struct {
	Before func(Call) error
	After  func(Call) error
	// Garble may change what a get or read returns.
	Garble func(call Call, off int64, body []byte)
}

// Store carries out a plan.
type Store struct {
	inner objstore.Store
	plan  Plan
	mu    sync.Mutex
	calls int
}

// New wraps a store.
func New(inner objstore.Store, plan Plan) *Store { return &Store{inner: inner, plan: plan} }

// Calls is how many operations were asked for.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *Store) run(op, key string, do func() error) (Call, error) {
	s.mu.Lock()
	s.calls++
	call := Call{Number: s.calls, Op: op, Key: key}
	s.mu.Unlock()
	if s.plan.Before != nil {
		if err := s.plan.Before(call); err != nil {
			return call, err
		}
	}
	if err := do(); err != nil {
		return call, err
	}
	if s.plan.After != nil {
		return call, s.plan.After(call)
	}
	return call, nil
}

func (s *Store) garble(call Call, off int64, body []byte) {
	if s.plan.Garble != nil {
		s.plan.Garble(call, off, body)
	}
}

// Put puts, or fails as planned.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	_, err := s.run("put", key, func() error { return s.inner.Put(ctx, key, body, opts) })
	return err
}

// Get gets, or fails as planned.
func (s *Store) Get(ctx context.Context, key string, limit int64) (body []byte, err error) {
	call, err := s.run("get", key, func() (err error) {
		body, err = s.inner.Get(ctx, key, limit)
		return err
	})
	s.garble(call, 0, body)
	return body, err
}

// ReadAt reads, or fails as planned.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (n int, err error) {
	call, err := s.run("read", key, func() (err error) {
		n, err = s.inner.ReadAt(ctx, key, p, off)
		return err
	})
	s.garble(call, off, p[:n])
	return n, err
}

// Stat looks, or fails as planned.
func (s *Store) Stat(ctx context.Context, key string) (info objstore.Info, err error) {
	_, err = s.run("stat", key, func() (err error) {
		info, err = s.inner.Stat(ctx, key)
		return err
	})
	return info, err
}

// List lists; a planned failure comes after half of it.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var infos []objstore.Info
		_, failed := s.run("list", prefix, func() error { return collect(s.inner.List(ctx, prefix, after), &infos) })
		yieldHalf(infos, failed, yield)
	}
}

// Folders lists; a planned failure comes after half of it.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var names []string
		_, failed := s.run("folders", prefix, func() error { return collect(s.inner.Folders(ctx, prefix), &names) })
		yieldHalf(names, failed, yield)
	}
}

func collect[T any](from iter.Seq2[T, error], to *[]T) error {
	for item, err := range from {
		if err != nil {
			return err
		}
		*to = append(*to, item)
	}
	return nil
}

func yieldHalf[T any](items []T, failed error, yield func(T, error) bool) {
	if failed != nil {
		items = items[:len(items)/2]
	}
	for _, item := range items {
		if !yield(item, nil) {
			return
		}
	}
	if failed != nil {
		var none T
		yield(none, failed)
	}
}

// Delete deletes, or fails as planned.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	_, err := s.run("delete", first, func() error { return s.inner.Delete(ctx, keys...) })
	return err
}

// Kept looks, or fails as planned.
func (s *Store) Kept(ctx context.Context) (kept objstore.Kept, err error) {
	_, err = s.run("kept", "", func() (err error) {
		kept, err = s.inner.Kept(ctx)
		return err
	})
	return kept, err
}

// Locks are those of the store inside, or fail as planned.
func (s *Store) Locks() objstore.Locker { return locker{s, s.inner.Locks()} }

type locker struct {
	store *Store
	inner objstore.Locker
}

// LockRule looks, or fails as planned.
func (l locker) LockRule(ctx context.Context) (rule objstore.LockRule, err error) {
	_, err = l.store.run("lock rule", "", func() (err error) {
		rule, err = l.inner.LockRule(ctx)
		return err
	})
	return rule, err
}

// LockOf looks, or fails as planned.
func (l locker) LockOf(ctx context.Context, key string) (lock objstore.Lock, err error) {
	_, err = l.store.run("lock of", key, func() (err error) {
		lock, err = l.inner.LockOf(ctx, key)
		return err
	})
	return lock, err
}

// Lock locks, or fails as planned.
func (l locker) Lock(ctx context.Context, key string, lock objstore.Lock) error {
	_, err := l.store.run("lock", key, func() error { return l.inner.Lock(ctx, key, lock) })
	return err
}
