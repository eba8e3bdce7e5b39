package supervise

import (
	"cmp"
	"time"
)

// crashes is what is remembered of a server that ended by itself, or did not start. Only the loop uses it.
type crashes struct {
	failures int       // one after another, of a primary or a replica
	since    time.Time // since when a primary that crashed is down; zero: it isn't
	last     time.Time // when it crashed the time before
	again    bool      // soon after
	least    time.Duration
	// blameless: a new configuration was to blame for the last failure, and the next start is with the one before.
	blameless bool
	patience  time.Duration // that is left with a primary, if it is more than the least
}

// crashPatience is the least where nothing else is asked for.
const crashPatience = 3 * time.Second

func newCrashes(patience time.Duration) *crashes {
	return &crashes{least: cmp.Or(patience, crashPatience)}
}

// primary notes that one crashed.
func (c *crashes) primary() {
	now := time.Now()
	c.again = !c.last.IsZero() && now.Sub(c.last) < longLife
	c.since, c.last = now, now
}

// retry begins another try, for which there is a moment again.
func (c *crashes) retry() {
	if c.hopeless() {
		c.since, c.again = time.Now(), false
	}
}

// up notes that a server accepts connections. Of a primary it is remembered when it crashed last.
func (c *crashes) up(as mode) {
	up := crashes{failures: c.failures, least: c.least}
	if as == primaryMode {
		up.last, up.patience = c.last, c.patience
	}
	*c = up
}

// hopeless: a primary that crashed has not come back soon, or crashes again and again.
func (c *crashes) hopeless() bool {
	return !c.since.IsZero() && (c.again || c.failures > 1 || time.Since(c.since) > max(c.patience, c.least))
}

// backOff is how long the next start waits, longer with each failure. After a crash, or a new configuration that failed, it doesn't.
func (c *crashes) backOff() time.Duration {
	if c.failures <= 1 && !c.hopeless() {
		return 0
	}
	return min(maxBackOff, time.Second<<min(max(c.failures-2, 0), 10))
}
