package backup

import (
	"sync"
	"time"
)

// reporter calls a Progress function about every second, and when the phase changes.
type reporter struct {
	report func(Progress)
	look   func() Progress // without the phase

	mu    sync.Mutex
	phase Phase
	stop  chan struct{}
	ended sync.WaitGroup
}

const reportInterval = time.Second

// newReporter starts to report. Without a function to call it does nothing.
func newReporter(report func(Progress), look func() Progress) *reporter {
	r := &reporter{report: report, look: look, stop: make(chan struct{})}
	if report == nil {
		return r
	}
	r.ended.Go(func() {
		ticker := time.NewTicker(reportInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.now()
			case <-r.stop:
				return
			}
		}
	})
	return r
}

// enter reports that a phase begins.
func (r *reporter) enter(phase Phase) {
	r.mu.Lock()
	r.phase = phase
	r.mu.Unlock()
	r.now()
}

func (r *reporter) now() {
	if r.report == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	progress := r.look()
	progress.Phase = r.phase
	r.report(progress)
}

// close reports for the last time.
func (r *reporter) close() {
	close(r.stop)
	r.ended.Wait()
	r.now()
}
