package background

import (
	"context"
	"slices"
	"sync"
)

// slots are what work waits for. A namespace may hold as many as stay free, so that one whose store is slow leaves room for others,
// and one that is alone has half of them.
type slots struct {
	mu      sync.Mutex
	free    int
	held    map[string]int // by namespace
	waiting []*place
}

// place is one in the queue.
type place struct {
	namespace string
	given     chan struct{} // closed when the slot is there
}

func newSlots(limit int) *slots { return &slots{free: limit, held: map[string]int{}} }

// take waits for a slot. False: the context ended first.
func (s *slots) take(ctx context.Context, namespace string) bool {
	mine := &place{namespace: namespace, given: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, mine)
	s.give()
	s.mu.Unlock()
	select {
	case <-mine.given:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, mine); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.put(namespace)
	}
	return false
}

func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(namespace)
}

// put gives a slot back. Called with the lock held, as give is.
func (s *slots) put(namespace string) {
	s.free++
	if s.held[namespace]--; s.held[namespace] == 0 {
		delete(s.held, namespace)
	}
	s.give()
}

// give hands out slots: first to the namespace that holds the fewest, and within it to who has waited longest.
func (s *slots) give() {
	for {
		next := -1
		for i, p := range s.waiting {
			if held := s.held[p.namespace]; held < s.free && (next < 0 || held < s.held[s.waiting[next].namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		p := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.free--
		s.held[p.namespace]++
		close(p.given)
	}
}
