// Package retry makes a store outlast short outages: it repeats what failed for a reason that may
// pass, a bounded time, with growing and random pauses.
package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// Policy bounds the retries. Zero values mean the defaults.
type Policy struct {
	// MaxElapsed is how long after its first failure an operation may still be tried again; 60 s. What came before
	// doesn't count: a large body takes its time on a slow line, and a server that froze is noticed late.
	MaxElapsed time.Duration
	// FirstPause and MaxPause bound the pauses, which double in between; 100 ms and 5 s. The actual
	// pause is random, between half of it and all of it.
	FirstPause, MaxPause time.Duration
	// Sleep waits, or returns the context's error. It is replaced in tests.
	Sleep func(ctx context.Context, d time.Duration) error
	// Now is the clock.
	Now func() time.Time
}

// Store repeats the operations of the store inside it.
type Store struct {
	inner  objstore.Store
	policy Policy
}

// New wraps a store.
func New(inner objstore.Store, policy Policy) *Store {
	if policy.MaxElapsed == 0 {
		policy.MaxElapsed = time.Minute
	}
	if policy.FirstPause == 0 {
		policy.FirstPause = 100 * time.Millisecond
	}
	if policy.MaxPause == 0 {
		policy.MaxPause = 5 * time.Second
	}
	if policy.Sleep == nil {
		policy.Sleep = sleep
	}
	if policy.Now == nil {
		policy.Now = time.Now
	}
	return &Store{inner: inner, policy: policy}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Retryable says whether the same request may succeed a little later. A certificate that isn't
// trusted stays so.
func Retryable(err error) bool {
	var (
		untrusted x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	if errors.As(err, &untrusted) || errors.As(err, &hostname) || errors.As(err, &invalid) || errors.As(err, &verify) || errors.As(err, &record) {
		return false
	}
	return errors.Is(err, objstore.ErrUnavailable)
}

// again counts the attempts of one operation.
type again struct {
	policy Policy
	failed time.Time // for the first time; zero before
	pause  time.Duration
}

func (s *Store) begin() *again {
	return &again{policy: s.policy, pause: s.policy.FirstPause}
}

// after waits before the next attempt, or returns the error that is final.
func (a *again) after(ctx context.Context, err error) error {
	if a.failed.IsZero() {
		a.failed = a.policy.Now()
	}
	pause := a.pause/2 + rand.N(a.pause/2+1)
	if !Retryable(err) || a.policy.Now().Add(pause).Sub(a.failed) > a.policy.MaxElapsed {
		return err
	}
	a.pause = min(2*a.pause, a.policy.MaxPause)
	if a.policy.Sleep(ctx, pause) != nil {
		return err // says more than that the context ended
	}
	return nil
}

func (s *Store) do(ctx context.Context, try func() error) error {
	for attempt := s.begin(); ; {
		err := try()
		if err == nil {
			return nil
		}
		if final := attempt.after(ctx, err); final != nil {
			return final
		}
	}
}

// Put may report ErrExists for its own earlier attempt, as the interface says.
func (s *Store) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	return s.do(ctx, func() error { return s.inner.Put(ctx, key, body, opts) })
}

// Get reads the whole object, again from the start after a failure.
func (s *Store) Get(ctx context.Context, key string, limit int64) (body []byte, err error) {
	err = s.do(ctx, func() error {
		body, err = s.inner.Get(ctx, key, limit)
		return err
	})
	return body, err
}

// ReadAt continues after the bytes that came before a failure.
func (s *Store) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	done := 0
	err := s.do(ctx, func() error {
		n, err := s.inner.ReadAt(ctx, key, p[done:], off+int64(done))
		done += n
		return err
	})
	return done, err
}

// Stat repeats.
func (s *Store) Stat(ctx context.Context, key string) (info objstore.Info, err error) {
	err = s.do(ctx, func() error {
		info, err = s.inner.Stat(ctx, key)
		return err
	})
	return info, err
}

// List continues after the last key that it has yielded.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for attempt := s.begin(); ; {
			failed := error(nil)
			for info, err := range s.inner.List(ctx, prefix, after) {
				if err != nil {
					failed = err
					break
				}
				after, attempt = info.Key, s.begin()
				if !yield(info, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if final := attempt.after(ctx, failed); final != nil {
				yield(objstore.Info{}, final)
				return
			}
		}
	}
}

// Folders starts over, and skips what it has yielded.
func (s *Store) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		last := ""
		for attempt := s.begin(); ; {
			failed := error(nil)
			for name, err := range s.inner.Folders(ctx, prefix) {
				if err != nil {
					failed = err
					break
				}
				if name <= last {
					continue
				}
				last = name
				if !yield(name, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if final := attempt.after(ctx, failed); final != nil {
				yield("", final)
				return
			}
		}
	}
}

// Delete repeats; what is gone already counts as removed.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	return s.do(ctx, func() error { return s.inner.Delete(ctx, keys...) })
}

// Kept is asked once: it can be had without.
func (s *Store) Kept(ctx context.Context) (objstore.Kept, error) { return s.inner.Kept(ctx) }

// Locks repeats, too.
func (s *Store) Locks() objstore.Locker { return locker{s, s.inner.Locks()} }

type locker struct {
	store *Store
	inner objstore.Locker
}

// LockRule repeats.
func (l locker) LockRule(ctx context.Context) (rule objstore.LockRule, err error) {
	err = l.store.do(ctx, func() error {
		rule, err = l.inner.LockRule(ctx)
		return err
	})
	return rule, err
}

// LockOf repeats.
func (l locker) LockOf(ctx context.Context, key string) (lock objstore.Lock, err error) {
	err = l.store.do(ctx, func() error {
		lock, err = l.inner.LockOf(ctx, key)
		return err
	})
	return lock, err
}

// Lock repeats: once more locked until the same time is the same.
func (l locker) Lock(ctx context.Context, key string, lock objstore.Lock) error {
	return l.store.do(ctx, func() error { return l.inner.Lock(ctx, key, lock) })
}
