package pgbouncer

import (
	"context"
	"sync"
	"time"
)

const (
	// wakeTime is how often a process wakes up by itself, and frozenTime after how long without it it was frozen. A busy machine lets it wake up sooner.
	wakeTime, frozenTime = 250 * time.Millisecond, 2 * time.Second
)

// wakes tell for how long this process didn't run, as on a node that is paused or frozen. Any goroutine may use it.
type wakes struct {
	mu     sync.Mutex
	last   time.Time
	frozen time.Duration // that nobody was told of yet
}

// run wakes up until ctx ends.
func (w *wakes) run(ctx context.Context) {
	tick := time.NewTicker(wakeTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.note(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (w *wakes) note(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gap := now.Sub(w.last); !w.last.IsZero() && gap > frozenTime {
		w.frozen += gap
	}
	w.last = now
}

// slept is for how long the process was frozen since the last time that this was asked.
func (w *wakes) slept(now time.Time) time.Duration {
	w.note(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	slept := w.frozen
	w.frozen = 0
	return slept
}
