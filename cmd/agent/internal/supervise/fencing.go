package supervise

import (
	"context"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
)

// fencing ends the server of this volume, whichever copy it runs on, when it may not accept writes any more. Any goroutine may use it.
type fencing struct {
	*instance
	publisher Publisher
	// membership in the election, which outlives the server: the watchdog runs as long.
	membership context.Context
	watching   sync.Once
}

// watch starts the watchdog, unless it runs.
func (f *fencing) watch() {
	if f.Watchdog != nil {
		f.watching.Do(func() { go f.Watchdog.Run(f.membership) })
	}
}

// permit has the watchdog let the server go on until then.
func (f *fencing) permit(until time.Duration) {
	if f.Watchdog == nil {
		return
	}
	if current, err := f.Volume.Current(); err == nil {
		f.Watchdog.Permit(watchdogLimit(until), f.Volume.PGData(current))
	}
}

// watchdogLimit is when the watchdog kills what the agent is to have fenced by then: a little later.
func watchdogLimit(until time.Duration) time.Duration {
	limits := elect.DefaultLimits()
	if until >= elect.Forever-limits.Kill {
		return elect.Forever
	}
	return until + limits.Kill - limits.Fence
}

// fence ends the server. Its clients are another's already, however busy the loop is.
func (f *fencing) fence() {
	f.publisher.Yield()
	if current, err := f.Volume.Current(); err == nil {
		postmaster.Fence(f.Volume.PGData(current))
	}
}
