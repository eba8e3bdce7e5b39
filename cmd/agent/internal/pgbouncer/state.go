package pgbouncer

import (
	"errors"
	"sync"
	"time"
)

// aliveTime is how long the loop may take for one turn.
const aliveTime = 30 * time.Second

// State is what a pooler knows, for those who ask. Any goroutine may use it.
type State struct {
	mu       sync.Mutex
	bouncer  *bouncer
	readOnly bool
	serving  string // pods that clients are sent to; empty: none
	waiting  bool   // clients wait for one
	draining bool
	holdings int // how many times they have waited
	// configRefused: PgBouncer has refused the changed configuration, and the previous one is in force.
	configRefused bool
	// lookupsRefused: the servers refuse to have passwords looked up, so that no client can log in.
	lookupsRefused bool
	last           time.Time
}

func (s *State) use(b *bouncer) { s.change(func() { s.bouncer = b }) }

func (s *State) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

func (s *State) beat()              { s.change(func() { s.last = time.Now() }) }
func (s *State) serves(pods string) { s.change(func() { s.serving, s.waiting = pods, false }) }
func (s *State) holds()             { s.change(func() { s.waiting = true; s.holdings++ }) }
func (s *State) fails()             { s.change(func() { s.serving, s.waiting = "", false }) }
func (s *State) drains()            { s.change(func() { s.draining = true }) }

// refuses notes the configuration that PgBouncer was told to read and has refused; nil: it has read the latest one.
func (p *Pooler) refuses(config *setup) {
	p.refused = config
	p.change(func() { p.configRefused = config != nil })
}

// keepsPrevious says whether the previous configuration is in force because PgBouncer has refused the changed one.
func (s *State) keepsPrevious() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.configRefused
}

// looksUp notes whether the servers refuse to have passwords looked up.
func (s *State) looksUp(refused bool) { s.change(func() { s.lookupsRefused = refused }) }

// logsNobodyIn says whether no client can log in because the servers refuse to have passwords looked up.
func (s *State) logsNobodyIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookupsRefused
}

// Serving are the pods that clients are sent to, such as "shop-0"; empty: none.
func (s *State) Serving() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving
}

// waits are for metrics: whether clients wait, how many times they have, and PgBouncer if it runs.
func (s *State) waits() (waiting, times float64, running *bouncer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving != "" {
		running = s.bouncer
	}
	return asNumber(s.waiting), float64(s.holdings), running
}

// Alive says whether the loop continues.
func (s *State) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.last) < aliveTime
}

// Ready says why clients should not come here.
func (s *State) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return errors.New("the pooler is about to end")
	case s.serving == "" && s.readOnly:
		return errors.New("no primary has named a replica that is within the limit of lag")
	case s.serving == "":
		return errors.New("no primary has said that it accepts connections")
	}
	return nil
}
