package objstore

import (
	"context"
	"errors"
	"time"
)

// Locker reads and extends the object locks of a bucket. A lock keeps a version of an object: what is deleted or replaced
// stays in the bucket until its lock has ended, and can be read as it was.
type Locker interface {
	// LockRule is what the bucket does with each new object; the zero value: it locks none.
	LockRule(ctx context.Context) (LockRule, error)

	// LockOf is the lock of an object as readers see it; the zero value: it has none.
	LockOf(ctx context.Context, key string) (Lock, error)

	// Lock locks the object until a time. A lock never gets shorter, nor weaker: that is ErrDenied.
	Lock(ctx context.Context, key string, lock Lock) error
}

// The modes of a lock. Who has a special right may remove what is locked in the mode GOVERNANCE, nobody in the other.
const (
	LockGovernance = "GOVERNANCE"
	LockCompliance = "COMPLIANCE"
)

// LockRule is how a bucket locks new objects.
type LockRule struct {
	Mode string
	For  time.Duration
}

// Lock is how an object is locked.
type Lock struct {
	Mode  string
	Until time.Time // whole seconds
}

// NoLocks is the Locker of stores that have no object lock.
type NoLocks struct{}

// LockRule is none.
func (NoLocks) LockRule(ctx context.Context) (LockRule, error) { return LockRule{}, ctx.Err() }

// LockOf is none.
func (NoLocks) LockOf(ctx context.Context, _ string) (Lock, error) { return Lock{}, ctx.Err() }

// Lock refuses.
func (NoLocks) Lock(_ context.Context, key string, _ Lock) error {
	return &Error{Op: "lock", Key: key, Kind: ErrDenied, Err: errors.New("the store has no object lock")}
}
