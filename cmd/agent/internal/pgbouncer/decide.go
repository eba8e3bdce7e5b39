package pgbouncer

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// pauseLimit is how long clients are kept waiting at most without a word of a primary. Then each learns from PgBouncer how things are,
// rather than from nobody.
const pauseLimit = 30 * time.Second

// act is what is done to PgBouncer after something was learned.
type act int

const (
	nothing act = iota
	// serve sends clients to the place that was asked, and lets them go on.
	serve
	// hold keeps what clients ask for.
	hold
	// release lets clients go on, wherever they are sent.
	release
)

// mind decides what becomes of clients. It is pure: it has no clock and does nothing.
type mind struct {
	// readOnly: clients are sent to replicas. These serve whether there is a primary or not, but only a primary knows them.
	readOnly bool
	// The latest primary that was heard of.
	generation string
	term       int64

	held     bool
	since    time.Time // that it is held, or was, if it was let go
	letGo    bool      // it was held for the limit; it is held again only once there was a primary
	handover string    // that it is held for; empty: none
}

// heard takes in an answer of the place that is said to be the primary's.
func (m *mind) heard(answer agentapi.PoolerAnswer, now time.Time) act {
	former := answer.DataGeneration == m.generation && answer.Term < m.term
	if former || !answer.Serving {
		return m.lost(now)
	}
	m.generation, m.term = answer.DataGeneration, answer.Term
	if m.readOnly && len(answer.Replicas) == 0 {
		return m.unserved(now)
	}
	if answer.Handover == "" || m.readOnly {
		m.held, m.letGo, m.handover = false, false, ""
		return serve
	}
	if m.handover == answer.Handover || m.letGo {
		return m.tick(now)
	}
	m.handover = answer.Handover
	return m.hold(now)
}

// lost takes in that there is no answer, or none of a primary.
func (m *mind) lost(now time.Time) act {
	if m.readOnly {
		return m.tick(now)
	}
	return m.unserved(now)
}

func (m *mind) unserved(now time.Time) act {
	if m.letGo {
		return nothing
	}
	return m.hold(now)
}

func (m *mind) hold(now time.Time) act {
	if m.held {
		return m.tick(now)
	}
	m.held, m.since = true, now
	return hold
}

// tick lets clients go when they were held for long enough.
func (m *mind) tick(now time.Time) act {
	if !m.held || now.Sub(m.since) < pauseLimit {
		return nothing
	}
	m.held, m.letGo = false, true
	return release
}
