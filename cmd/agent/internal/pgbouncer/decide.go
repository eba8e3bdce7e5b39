package pgbouncer

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// pauseLimit is how long clients are kept waiting at most without a word of a primary. Then each learns from PgBouncer how things are,
// rather than from nobody.
const pauseLimit = 30 * time.Second

// lagKnown is for how long a replica lags as it did. A primary looks once a second and answers every three.
const lagKnown = 8 * time.Second

// act is what is done to PgBouncer after something was learned.
type act int

const (
	nothing act = iota
	// serve sends clients to the place that was asked, and lets them continue.
	serve
	// hold keeps what clients ask for.
	hold
	// release lets clients continue, wherever they are sent. Readers are sent nowhere.
	release
)

// mind decides what becomes of clients. It is pure: it has no clock and does nothing.
type mind struct {
	// readOnly: clients are sent to replicas. These serve whether there is a primary or not, but only a primary knows them.
	readOnly bool
	// knownLagOnly: clients are sent to no replica whose lag is not known.
	knownLagOnly bool
	seen         time.Time // that the replicas were; zero: never
	// The latest primary that was heard of.
	generation, lease string
	term              int64

	held     bool
	since    time.Time // that it is held, or was, if it was let go
	letGo    bool      // it was held for the limit; it is held again only once there was a primary
	handover string    // that it is held for; empty: none
}

// heard takes in an answer of the place that is said to be the primary's.
func (m *mind) heard(answer agentapi.PoolerAnswer, now time.Time) act {
	if m.former(answer) && !m.letGo || !answer.Serving {
		return m.lost(now)
	}
	m.generation, m.lease, m.term = answer.DataGeneration, answer.LeaseCreated, answer.Term
	if m.readOnly {
		return m.named(answer, now)
	}
	if answer.Handover == "" {
		return m.serve()
	}
	if m.handover == answer.Handover || m.letGo {
		return m.tick(now)
	}
	m.handover = answer.Handover
	return m.hold(now)
}

// former says whether an answer is of an earlier primary than the latest one. It isn't believed, for as long as clients can be kept waiting: a Lease that was
// restored from a backup counts terms a second time.
func (m *mind) former(answer agentapi.PoolerAnswer) bool {
	switch {
	case answer.DataGeneration != m.generation, answer.Term == 0: // a cluster of one instance has no Lease any more, and nobody else
		return false
	case answer.LeaseCreated != m.lease && answer.LeaseCreated != "" && m.lease != "": // terms of two Leases can't be compared
		return answer.LeaseCreated < m.lease
	}
	return answer.Term < m.term
}

// named takes in who may have readers.
func (m *mind) named(answer agentapi.PoolerAnswer, now time.Time) act {
	age := time.Duration(answer.ReplicasSeconds * float64(time.Second))
	if answer.ReplicasUnknown || m.knownLagOnly && age > lagKnown {
		return m.lost(now)
	}
	m.seen = now.Add(-age)
	if len(answer.Replicas) == 0 {
		return m.unserved(now)
	}
	return m.serve()
}

func (m *mind) serve() act {
	m.held, m.letGo, m.handover = false, false, ""
	return serve
}

// lost takes in that there is no answer, or none of a primary, or that it says nothing of its replicas.
func (m *mind) lost(now time.Time) act {
	if m.readOnly {
		return m.tick(now)
	}
	return m.unserved(now)
}

// outdated says that readers would be sent to replicas whose lag was known once.
func (m *mind) outdated(now time.Time) bool {
	return m.readOnly && m.knownLagOnly && !m.seen.IsZero() && now.Sub(m.seen) > lagKnown
}

func (m *mind) unserved(now time.Time) act {
	if m.letGo {
		return nothing
	}
	return m.hold(now)
}

func (m *mind) hold(now time.Time) act {
	if m.held {
		return m.limit(now)
	}
	m.held, m.since = true, now
	return hold
}

// tick takes in that time passes.
func (m *mind) tick(now time.Time) act {
	if m.outdated(now) {
		return m.unserved(now)
	}
	return m.limit(now)
}

// slept takes in that a pooler was frozen: a pause doesn't end by that. Meanwhile, another primary may have begun, of which it has to hear first.
func (m *mind) slept(d time.Duration) { m.since = m.since.Add(d) }

// limit lets clients go when they were held for long enough.
func (m *mind) limit(now time.Time) act {
	if !m.held || now.Sub(m.since) < pauseLimit {
		return nothing
	}
	m.held, m.letGo = false, true
	return release
}
