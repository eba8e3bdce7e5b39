package supervise

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// stopMargin is kept of the grace period for an immediate shutdown and what comes after it.
	stopMargin = 5 * time.Second
	// exitMargin is kept of it for the agent's own end.
	exitMargin = time.Second
	// leaveTime is how long the lease may take to be given up when the pod ends.
	leaveTime = 10 * time.Second
	// unknownFinish is how long the rest of the WAL may take in a grace period whose length is unknown.
	unknownFinish = time.Minute
)

// gracePeriod is the time that the pod has to end, from SIGTERM on.
type gracePeriod struct {
	length time.Duration // 0: unknown
	ends   atomic.Pointer[time.Time]
}

// follow starts the period when ctx ends.
func (g *gracePeriod) follow(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		ends := time.Now().Add(g.length)
		g.ends.Store(&ends)
	})
}

// left is what is left of it: all, while nobody ends the pod; nothing of one whose length is unknown.
func (g *gracePeriod) left() time.Duration {
	if ends := g.ends.Load(); ends != nil && g.length > 0 {
		return max(0, time.Until(*ends))
	}
	return g.length
}

// checkpoint is how long the checkpoint before a shutdown may take.
func (g *gracePeriod) checkpoint() time.Duration {
	if g.length == 0 {
		return leaveTime
	}
	return g.left() / 2
}

// shutdown is how long a fast shutdown may take.
func (g *gracePeriod) shutdown() time.Duration { return max(g.left()-stopMargin, g.left()/2) }

// rest is how long a replica may wait for the last of its primary's WAL.
func (g *gracePeriod) rest() time.Duration {
	if g.length == 0 {
		return leaveTime
	}
	return max(g.left()-2*stopMargin, g.left()/2)
}

// finish is how long the rest of the WAL may take to be archived; the lease is given up meanwhile.
func (g *gracePeriod) finish() time.Duration {
	if g.length == 0 {
		return unknownFinish
	}
	return g.left() / 2
}

// leave is how long the lease may take to be given up.
func (g *gracePeriod) leave() time.Duration {
	if g.length == 0 {
		return leaveTime
	}
	return min(leaveTime, max(0, g.left()-exitMargin))
}
