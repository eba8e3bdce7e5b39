package instancelog

import (
	"context"
	"sync"
	"time"
)

// grace is how long a pod may take to deliver its next line before lines of other pods are written. Without it, a pod that has nothing to say
// would hold back all others.
const grace = 300 * time.Millisecond

// merger puts the records of several pods into the order of their times. Pods may join while it runs.
type merger struct {
	// patient: each pod is waited for until its log ends. Only a log that is not followed has an end.
	patient bool
	wake    chan struct{}

	mu    sync.Mutex
	feeds []*feed
}

// feed has the records of one pod, in their order.
type feed struct {
	records chan Record
	// head is the next record, if it has been received.
	head *Record
	// idle: it had no record for the time of grace.
	idle, ended bool
}

func newMerger(patient bool) *merger { return &merger{patient: patient, wake: make(chan struct{}, 1)} }

// join adds a pod. Its records are given to put, and finish says that there are no more.
func (m *merger) join() (put func(context.Context, Record) error, finish func()) {
	f := &feed{records: make(chan Record, 64)}
	m.mu.Lock()
	m.feeds = append(m.feeds, f)
	m.mu.Unlock()
	put = func(ctx context.Context, record Record) error {
		select {
		case f.records <- record:
			m.nudge()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return put, func() { close(f.records); m.nudge() }
}

// nudge has run look again.
func (m *merger) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run emits records until every log has ended, which those of pods that are followed never do.
func (m *merger) run(ctx context.Context, emit func(Record) error) error {
	for {
		next, waits, all := m.look()
		switch {
		case waits:
			if err := m.wait(ctx); err != nil {
				return err
			}
		case next != nil:
			record := *next.head
			next.head = nil
			if err := emit(record); err != nil {
				return err
			}
		case all && m.patient:
			return nil
		default:
			select {
			case <-m.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// look receives what is there. It returns the feed with the earliest record, whether one that isn't idle has none yet, and whether all have ended.
func (m *merger) look() (next *feed, waits, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = true
	for _, f := range m.feeds {
		f.receive()
		switch {
		case f.head == nil && !f.ended:
			all = false
			waits = waits || !f.idle
		case f.head != nil:
			all = false
			if next == nil || f.head.At.Before(next.head.At) {
				next = f
			}
		}
	}
	return next, waits, all
}

func (f *feed) receive() {
	if f.head != nil || f.ended {
		return
	}
	select {
	case record, more := <-f.records:
		if !more {
			f.ended = true
			return
		}
		f.head, f.idle = &record, false
	default:
	}
}

// wait lasts until something arrives, or until the time of grace is over: then those that have said nothing are idle.
func (m *merger) wait(ctx context.Context) error {
	var over <-chan time.Time
	if !m.patient {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-m.wake:
	case <-over:
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, f := range m.feeds {
			f.idle = f.head == nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
