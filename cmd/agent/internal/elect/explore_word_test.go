package elect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// letter is a question for the word of a member, or the answer to it.
type letter struct {
	from, to string
	life     int // of the process that has asked
	answer   bool
	request  WordRequest
}

// kept is how many letters of a kind may be on their way between two: a late one, and the last.
const kept = 2

// mistake that somebody might make.
type mistake int

const (
	none mistake = iota
	countedFromArrival
	countedBeforeConfirmed
	noWaitAfterRestart
	degradesAgain
)

// post a question, or an answer.
func (u *universe) send(l letter) {
	count := 0
	var left []letter
	for _, other := range slices.Backward(u.letters) {
		if other.from == l.from && other.to == l.to && other.answer == l.answer {
			if count++; count >= kept {
				continue
			}
		}
		left = append(left, other)
	}
	slices.Reverse(left)
	if !slices.Contains(left, l) {
		left = append(left, l)
	}
	u.letters = left
}

func (u *universe) post(p *place, question *WordQuestion) {
	for _, m := range question.Members {
		u.send(letter{from: p.name, to: m.Name, life: p.life, request: question.Request})
	}
}

// deliver a letter, which stays on its way: it may come again.
func (u *universe) deliver(l letter) {
	from, to := u.place(l.from), u.place(l.to)
	switch {
	case from.cut || to.cut || to.gone || to.paused:
	case !l.answer:
		if to.core.AskedWord(to.now, l.request) {
			u.send(letter{from: l.to, to: l.from, life: l.life, answer: true, request: l.request})
		}
	case to.life == l.life:
		to.core.HeardWord(to.now, l.from, l.request.Failsafe.Term, l.request.Number)
		if heard := to.core.asks.heard; u.config.mistake == countedFromArrival && heard != nil {
			heard[l.from] = to.now
		}
	}
}

func (u *universe) deliverAll() {
	for _, answers := range []bool{false, true} {
		for _, l := range u.letters {
			if l.answer == answers {
				u.deliver(l)
			}
		}
	}
}

// tryLetters lets each arrive, or be forgotten by not arriving.
func (u *universe) tryLetters(try func(string, func(*universe))) {
	for _, l := range u.letters {
		what := "a question of " + l.from + " reaches " + l.to
		if l.answer {
			what = "an answer of " + l.from + " reaches " + l.to
		}
		if p := u.place(l.to); !p.gone && !p.paused && !p.cut && !u.place(l.from).cut {
			try(what, func(v *universe) { v.deliver(l) })
		}
	}
}

func (u *universe) describeLetters(b *strings.Builder) {
	for _, l := range u.letters {
		requester := u.place(l.from)
		if l.answer {
			requester = u.place(l.to)
		}
		fmt.Fprint(b, l.from, l.to, l.answer, l.life == requester.life, l.request.Failsafe.Term, l.request.Sequence, left(l.request.Number, requester.now), ";")
	}
}

func describeWord(b *strings.Builder, c *Core, now Time) {
	fmt.Fprint(b, left(c.asks.asked, now), left(c.asks.whole, now), c.asks.whole > 0)
	for _, name := range slices.Sorted(maps.Keys(c.asks.heard)) {
		fmt.Fprint(b, name, left(c.asks.heard[name], now))
	}
	fmt.Fprint(b, left(c.given.until, now), c.given.term, c.given.sequence, left(c.given.number, now), left(c.lease.since, now))
	for _, w := range c.lease.ways {
		fmt.Fprint(b, w.possible, w.members, left(w.since, now))
	}
}

// kept by word: the lease is, and time is reduced to the limits of that.
func byTheirWord(u *universe) {
	for _, p := range u.places {
		p.limits.Word = WordLimits{
			Ask: tick, Rest: tick, Prove: tick, Silent: 3 * tick / 2, Fence: 3 * tick, Expire: 4 * tick, Keep: 6 * tick, Others: 7 * tick,
		}
		p.limits.Fence, p.limits.Kill, p.limits.Expire = 5*tick, 5*tick, 6*tick
		p.config.Limits, p.config.ByWord = p.limits, true
		p.core.Configure(p.config)
	}
	for range 12 {
		if u.calm(1); u.lease.Word > 0 {
			u.calm(1)
			return
		}
	}
	u.fail("the lease is not kept by word")
}

var explorationsByWord = map[string]exploration{
	"lost, late, doubled and old answers": {instances: 2, ticks: 7},
	"among three":                         {instances: 3, number: 1, required: true, ticks: 6},
	"cuts":                                {instances: 2, faults: []string{"cut", "unheard"}, ticks: 6, most: 2},
	"crashes":                             {instances: 2, faults: []string{"crash"}, ticks: 6, most: 2},
	"crashes and cuts":                    {instances: 3, number: 1, required: true, faults: []string{"crash", "cut", "unheard", "delete", "start"}, ticks: 5, commits: 1, most: 2},
	"other limits":                        {instances: 2, faults: []string{"limits", "cut"}, ticks: 6, most: 2},
	"switchovers":                         {instances: 2, number: 1, faults: []string{"switch", "cut"}, ticks: 5, commits: 1, most: 2},
}

func TestALeaseByWordIsSafeInEveryOrderOfEvents(t *testing.T) {
	states := 3000
	if *exploreAll > 0 {
		states = *exploreAll
	}
	for name, e := range explorationsByWord {
		e.begin, e.byWord = byTheirWord, true
		t.Run(name, func(t *testing.T) { explore(t, e, states) })
	}
}

func TestTheExplorationFindsMistakesAboutAWord(t *testing.T) {
	for name, m := range map[string]struct {
		mistake mistake
		faults  []string
	}{
		"an answer counts from when it arrives":              {countedFromArrival, nil},
		"a write counts before it is confirmed":              {countedBeforeConfirmed, []string{"cut"}},
		"an agent that was started again doesn't wait first": {noWaitAfterRestart, []string{"crash"}},
	} {
		e := exploration{instances: 2, ticks: 9, most: 1, faults: m.faults, begin: byTheirWord, byWord: true, mistake: m.mistake}
		began := time.Now()
		looked, _, wrong := look(e, 300_000)
		if !strings.Contains(wrong, "both accept writes") {
			t.Errorf("%s: %d states, and nothing is wrong: %s", name, looked, wrong)
		}
		t.Logf("%s: found in %d states and %s: %s", name, looked, time.Since(began), wrong)
	}
}
