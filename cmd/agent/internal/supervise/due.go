package supervise

import (
	"sync"
	"time"
)

// dueTime is how long a replica has for the newest WAL until that counts as lag. A busy primary writes more in a second than
// spec.maxLagOnFailover allows, and whoever receives it all the time would never be fit to take over.
const dueTime = 2 * time.Second

// due remembers where the primary was a while ago: what every replica should have by now. Any goroutine may use it.
type due struct {
	mu   sync.Mutex
	past []position // in order, of the last dueTime and the newest one before that
}

type position struct {
	at  time.Time
	lsn uint64
}

// note takes in where the primary is, and returns what replicas should have. Where nothing is known of so long ago, it is all.
func (d *due) note(now time.Time, lsn uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.past); n > 0 && d.past[n-1].lsn > lsn { // another timeline
		d.past = nil
	}
	d.past = append(d.past, position{now, lsn})
	for len(d.past) > 1 && now.Sub(d.past[1].at) >= dueTime {
		d.past = d.past[1:]
	}
	if now.Sub(d.past[0].at) < dueTime {
		return lsn
	}
	return d.past[0].lsn
}

// lacks says by how many bytes a position lies before another one.
func lacks(has, of uint64) uint64 {
	if has >= of {
		return 0
	}
	return of - has
}
