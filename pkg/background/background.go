// Package background does long work beside the reconcile loop: a pass starts it, continues, and is woken when the result
// is there. Nothing here survives the process; what must not be lost belongs in a status.
package background

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// forgetAfter is how long a result that nobody asks for is kept.
const forgetAfter = time.Hour

// Options bound the work.
type Options struct {
	// Timeout of one piece of work.
	Timeout time.Duration
	// Limit is how many pieces run at once. The objects of one namespace have half of them, and less while others work: a namespace
	// whose stores are slow must not keep the others waiting.
	Limit int
	// Now is the clock.
	Now func() time.Time
}

// Runner does one piece of work at a time for each object.
type Runner[R any] struct {
	ctx     context.Context
	options Options
	slots   *slots
	wake    chan event.GenericEvent

	mu    sync.Mutex
	tasks map[types.UID]*task[R]
}

type task[R any] struct {
	key    string
	cancel context.CancelFunc
	runs   bool
	known  bool // result is there, perhaps from the run before
	result R
	ended  time.Time
	asked  time.Time
}

// New makes a Runner whose work ends with ctx.
func New[R any](ctx context.Context, options Options) *Runner[R] {
	return &Runner[R]{
		ctx: ctx, options: options,
		slots: newSlots(options.Limit),
		wake:  make(chan event.GenericEvent),
		tasks: map[types.UID]*task[R]{},
	}
}

// Source wakes the reconciler of the object whose work has ended.
func (r *Runner[R]) Source() source.Source {
	return source.Channel(r.wake, &handler.EnqueueRequestForObject{})
}

// WakeBy calls wake with each object whose work has ended, where no Source is started. It ends with the Runner.
func (r *Runner[R]) WakeBy(wake func(client.Object)) {
	go func() {
		for {
			select {
			case woken := <-r.wake:
				wake(woken.Object)
			case <-r.ctx.Done():
				return
			}
		}
	}()
}

// Do returns the result of work for this object under this key. It starts the work when there is no result, or when
// the one there is older than maxAge; meanwhile it returns the older one. A new key means other work: what runs under
// the old one is cancelled and its result forgotten. False: there is no result yet.
func (r *Runner[R]) Do(object client.Object, key string, maxAge time.Duration, work func(context.Context) R) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	r.purge(now)
	t := r.tasks[object.GetUID()]
	if t != nil && t.key != key {
		t.cancel()
		t = nil
	}
	if t == nil {
		t = &task[R]{key: key}
		r.tasks[object.GetUID()] = t
	}
	t.asked = now
	if !t.runs && (!t.known || now.Sub(t.ended) >= maxAge) {
		r.start(t, object, work)
	}
	return t.result, t.known
}

func (r *Runner[R]) start(t *task[R], object client.Object, work func(context.Context) R) {
	ctx, cancel := context.WithCancel(r.ctx)
	t.runs, t.cancel = true, cancel
	name := event.GenericEvent{Object: object.DeepCopyObject().(client.Object)}
	go func() {
		defer cancel()
		if !r.slots.take(ctx, name.Object.GetNamespace()) {
			return
		}
		limited, stop := context.WithTimeout(ctx, r.options.Timeout)
		result := work(limited)
		stop()
		r.slots.release(name.Object.GetNamespace())
		r.finish(t, result)
		if ctx.Err() != nil {
			return // nobody asks for it any more
		}
		select {
		case r.wake <- name:
		case <-ctx.Done():
		}
	}()
}

// Forget ends the work for an object, if it still continues, and drops its result.
func (r *Runner[R]) Forget(object client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tasks[object.GetUID()]; t != nil {
		t.cancel()
		delete(r.tasks, object.GetUID())
	}
}

func (r *Runner[R]) finish(t *task[R], result R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.runs, t.known, t.result, t.ended = false, true, result, r.options.Now()
}

// purge forgets objects that nobody asked about for long. Called with the lock held.
func (r *Runner[R]) purge(now time.Time) {
	for uid, t := range r.tasks {
		if !t.runs && now.Sub(t.asked) > forgetAfter {
			delete(r.tasks, uid)
		}
	}
}
