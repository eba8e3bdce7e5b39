package backup

import (
	"context"
	"sync"
	"time"
)

// throttle spreads bytes over time. A nil throttle lets everything through.
type throttle struct {
	perSecond int64
	mu        sync.Mutex
	next      time.Time // when the bytes that were taken so far are paid for
	now       func() time.Time
	pause     func(context.Context, time.Duration) error
}

func newThrottle(perSecond int64) *throttle {
	if perSecond <= 0 {
		return nil
	}
	return &throttle{perSecond: perSecond, now: time.Now, pause: pause}
}

// take waits until n bytes are paid for: whatever sizes they come in, no more is read in a time than may be.
func (t *throttle) take(ctx context.Context, n int64) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	now := t.now()
	if t.next.Before(now) {
		t.next = now
	}
	t.next = t.next.Add(time.Duration(float64(n) / float64(t.perSecond) * float64(time.Second)))
	wait := t.next.Sub(now)
	t.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return t.pause(ctx, wait)
}
