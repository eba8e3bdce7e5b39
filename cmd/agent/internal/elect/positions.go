package elect

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// askPause is between two questions for positions while somebody waits for the answer.
	askPause = 150 * time.Millisecond
	// answerAge is how old an answer may be to be built on.
	answerAge = 3 * time.Second
)

// positions are those that other instances have answered, and since when they are being asked.
type positions struct {
	heard map[string]answer
	since Time // when the asking began; 0: nobody is being asked
	asked Time // when they were asked last
}

type answer struct {
	position agentapi.Position
	asked    Time
}

// forget what was answered up to now: who asks next has to hear it again.
func (p *positions) forget() { p.since = 0 }

// asking says whether anybody is being asked.
func (p *positions) asking() bool { return p.since > 0 }

// note an answer. The time of the question counts, as an answer may lie about for long before it is read.
func (p *positions) note(asked Time, position agentapi.Position) {
	if known := p.heard[position.Pod]; asked >= known.asked {
		p.heard[position.Pod] = answer{position, asked}
	}
}

// ask says who is to be asked now, and when to look again. It notes since when.
func (p *positions) ask(now Time, members []Member, self string) (due []Member, again Time) {
	if p.since == 0 {
		p.since = now
		p.asked = 0
	}
	if now >= p.asked+askPause {
		p.asked = now
		due = slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == self || m.Address == "" })
	}
	return due, p.asked + askPause
}

// fresh is what a member has answered since the asking began, if that is not old.
func (p *positions) fresh(now Time, name string) (agentapi.Position, bool) {
	a, found := p.heard[name]
	return a.position, found && p.since > 0 && a.asked >= p.since && a.asked+answerAge >= now
}

// able says whether a member has answered since the asking began that it is up as a replica, however long ago.
func (p *positions) able(name string) bool {
	a := p.heard[name]
	return a.asked >= p.since && able(a.position)
}

// furthest is who of these is furthest ahead, the first of several; empty: there are none.
func (p *positions) furthest(members []Member) string {
	best := ""
	for _, m := range members {
		if best == "" || ahead(p.heard[m.Name].position, p.heard[best].position) > 0 {
			best = m.Name
		}
	}
	return best
}

// able says whether a position counts: another server than a running replica may have lost by now what it had, and one that
// has not read all of its WAL yet doesn't know where it is.
func able(p agentapi.Position) bool { return p.Replica && p.Timeline > 0 }
