package watchdog

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Punctual is how late a watchdog may be that was not kept from its work.
const Punctual = 200 * time.Millisecond

const (
	mostGuards = 8           // beyond this many processors one of these is free soon enough
	guardPause = time.Second // between two looks at the permission, which may have become shorter
)

// guards are threads, each bound to a processor, that kill when the permission ended more than Punctual ago. A machine that
// continues after it stood still wakes everything at once: one thread may have to wait for its turn on one processor while
// a session acknowledges rows on another.
type guards struct {
	now    func() time.Duration
	kill   func(dir string, late time.Duration)
	newest atomic.Pointer[permission] // nil: there was none yet
	ended  atomic.Bool
}

func (g *guards) start() {
	for _, processor := range processors() {
		go g.guard(processor)
	}
}

// processors are those that this process may run on, or the first of them.
func processors() (found []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil // then there is no guard but the watchdog itself
	}
	for processor := 0; len(found) < min(set.Count(), mostGuards); processor++ {
		if set.IsSet(processor) {
			found = append(found, processor)
		}
	}
	return found
}

func (g *guards) guard(processor int) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	var set unix.CPUSet
	set.Set(processor)
	_ = unix.SchedSetaffinity(0, &set) // else it is one thread more, wherever it runs
	for !g.ended.Load() {
		pause := guardPause
		if p := g.newest.Load(); p != nil {
			late := g.now() - p.until
			if late > Punctual {
				g.kill(p.dir, late)
			} else {
				pause = min(pause, Punctual-late)
			}
		}
		ts := unix.NsecToTimespec(int64(max(pause, minPause)))
		_ = unix.ClockNanosleep(unix.CLOCK_BOOTTIME, 0, &ts, nil) // a signal only makes it look earlier
	}
}
