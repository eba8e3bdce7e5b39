package supervise

import (
	"context"
	"sync"
	"sync/atomic"
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
	pgdata     atomic.Pointer[string] // of the copy that a server may run on; nil: there was none yet. No disk is asked for it
}

// of says on which copy a server may run from now on.
func (f *fencing) of(pgdata string) { f.pgdata.Store(&pgdata) }

// watch starts the watchdog, unless it runs.
func (f *fencing) watch() {
	if f.Watchdog != nil {
		f.watching.Do(func() { go f.Watchdog.Run(f.membership) })
	}
}

// permit has the watchdog let the server continue until then.
func (f *fencing) permit(until time.Duration) {
	if f.Watchdog == nil {
		return
	}
	if pgdata := f.pgdata.Load(); pgdata != nil {
		f.Watchdog.Permit(watchdogLimit(until), *pgdata)
	}
}

// watchdogLimit is when the watchdog kills what the agent is to have fenced by then: a little later.
func watchdogLimit(until time.Duration) time.Duration {
	if until >= elect.Forever-elect.Margin {
		return elect.Forever
	}
	return until + elect.Margin
}

// fence ends the server. Its clients are another's already, however busy the loop is.
func (f *fencing) fence() {
	f.publisher.Yield()
	if pgdata := f.pgdata.Load(); pgdata != nil {
		postmaster.Fence(*pgdata)
	}
}
