// Package background does slow reads outside of the reconcile loop: a pass starts one, ends, and finds the result when it
// looks again.
package background

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Runner runs one read per key at a time, and keeps the result until it is forgotten.
type Runner[K comparable, T any] struct {
	// Limit of one run; it ends with context.DeadlineExceeded then.
	Limit time.Duration
	// Done is called after each run, for the owner of the key to look again.
	Done func(ctx context.Context, key K)

	slots chan struct{}
	mu    sync.Mutex
	ctx   context.Context
	runs  map[K]*run[T]
}

type run[T any] struct {
	cancel context.CancelFunc
	ended  time.Time // zero while it goes on
	value  T
	err    error
	// before is the run whose result holds until this one has ended; nil for the first.
	before *run[T]
}

// New makes a runner of so many runs at once. It starts them once Start was called.
func New[K comparable, T any](parallel int, limit time.Duration, done func(context.Context, K)) *Runner[K, T] {
	return &Runner[K, T]{Limit: limit, Done: done, slots: make(chan struct{}, parallel), runs: map[K]*run[T]{}}
}

// Start lets runs begin, and ends them all with ctx. It is a manager.Runnable.
func (r *Runner[K, T]) Start(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection: only the leader acts, and so only the leader reads.
func (r *Runner[K, T]) NeedLeaderElection() bool { return true }

// Look returns the result of the last run for key, and starts work if there is none or it ended longer ago than fresh;
// the old result holds until the new one is there. False: there is no result yet.
func (r *Runner[K, T]) Look(key K, fresh time.Duration, work func(context.Context) (T, error)) (T, error, bool) { //nolint:revive // error is the run's, not the call's
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.runs[key]
	if found == nil || !found.ended.IsZero() && time.Since(found.ended) > fresh {
		found = r.start(key, found, work)
	}
	if found != nil && found.ended.IsZero() {
		found = found.before
	}
	if found == nil {
		var none T
		return none, nil, false
	}
	return found.value, found.err, true
}

// start begins a run, if the manager has started.
func (r *Runner[K, T]) start(key K, before *run[T], work func(context.Context) (T, error)) *run[T] {
	if r.ctx == nil {
		return before
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.Limit)
	started := &run[T]{cancel: cancel, before: before}
	r.runs[key] = started
	go r.work(ctx, key, started, work)
	return started
}

func (r *Runner[K, T]) work(ctx context.Context, key K, this *run[T], work func(context.Context) (T, error)) {
	defer this.cancel()
	value, err := r.inSlot(ctx, work)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("not done after %s: %w", r.Limit, err)
	}
	r.mu.Lock()
	this.value, this.err, this.ended, this.before = value, err, time.Now(), nil
	outer := r.ctx
	r.mu.Unlock()
	r.Done(outer, key)
}

func (r *Runner[K, T]) inSlot(ctx context.Context, work func(context.Context) (T, error)) (none T, err error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		return work(ctx)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Forget ends the run for key, if it still goes on, and drops its result.
func (r *Runner[K, T]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[key]; found != nil {
		found.cancel()
		delete(r.runs, key)
	}
}
