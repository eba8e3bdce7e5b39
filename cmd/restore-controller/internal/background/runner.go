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
	ended  bool
	value  T
	err    error
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

// Look returns the result of the run for key, and starts work if there is none. False: it is not there yet.
func (r *Runner[K, T]) Look(key K, work func(context.Context) (T, error)) (T, error, bool) { //nolint:revive // error is the run's, not the call's
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.runs[key]; found != nil {
		return found.value, found.err, found.ended
	}
	var none T
	if r.ctx == nil {
		return none, nil, false
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.Limit)
	started := &run[T]{cancel: cancel}
	r.runs[key] = started
	go r.work(ctx, key, started, work)
	return none, nil, false
}

func (r *Runner[K, T]) work(ctx context.Context, key K, this *run[T], work func(context.Context) (T, error)) {
	defer this.cancel()
	value, err := r.inSlot(ctx, work)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("not done after %s: %w", r.Limit, err)
	}
	r.mu.Lock()
	this.value, this.err, this.ended = value, err, true
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
