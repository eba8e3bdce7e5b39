// Package progress tells a person what is being done and for how long, so that a long build never looks like a hang.
package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// remindEvery is how often a step that continues says so.
const remindEvery = 10 * time.Second

// Reporter writes a line per step. It may be used from several goroutines.
type Reporter struct {
	mutex sync.Mutex
	out   io.Writer
	start time.Time
}

// New returns a reporter whose clock starts now.
func New(out io.Writer) *Reporter { return &Reporter{out: out, start: time.Now()} }

// Say writes one line with the time since the start.
func (r *Reporter) Say(format string, args ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Fprintf(r.out, "%8.2fs  %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// Step runs one step: it reports the step's end, and that it still continues every few seconds.
func (r *Reporter) Step(ctx context.Context, what string, step func(context.Context) error) error {
	began := time.Now()
	done := make(chan struct{})
	var reminder sync.WaitGroup
	reminder.Go(func() { r.remind(what, began, done) })
	err := step(ctx)
	close(done)
	reminder.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r.Say("%s (%s)", what, time.Since(began).Round(10*time.Millisecond))
	return nil
}

func (r *Reporter) remind(what string, began time.Time, done <-chan struct{}) {
	ticker := time.NewTicker(remindEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			r.Say("… %s, %s so far", what, time.Since(began).Round(time.Second))
		}
	}
}
