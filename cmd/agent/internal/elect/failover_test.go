package elect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func agentPosition(timeline int64, lsn uint64) agentapi.Position {
	return agentapi.Position{Timeline: timeline, LSN: lsn}
}

func with(config Config, failover Failover) Config {
	config.Failover = failover
	return config
}

func (i *instance) explains(part string) {
	i.Helper()
	if !strings.Contains(i.acts.Want.Why, part) {
		i.Errorf("%s waits because: %q, not %q", i.core.self.Name, i.acts.Want.Why, part)
	}
}

// outlasts is a replica at position 100 that has asked the others, as the lease of a has run out.
func outlasts(t *testing.T, name string, config Config, record Record) *instance {
	i := start(t, name, config).sees(record).serves(Replica, 1, 100)
	return i.passes(limits.Expire)
}

func TestPriorityOrdersThoseThatHaveTheSame(t *testing.T) {
	preferred := with(required(1), Failover{Priorities: map[string]int{"c": 90}})
	b := outlasts(t, "b", preferred, held(1, "b", "c")).hears("c", 1, 100)
	b.waits()
	b.explains("c has the same position and takes precedence")
	b.passes(limits.Listen+limits.Grace).hears("c", 1, 100).takes()
	outlasts(t, "c", preferred, held(1, "b", "c")).hears("b", 1, 100).takes()
}

func TestWhoHasTheMostComesBeforeAnyPriority(t *testing.T) {
	for name, config := range map[string]Config{"with a quorum": required(1), "without one": asynchronous()} {
		t.Run(name, func(t *testing.T) {
			record := held(config.Number, "b", "c")
			config.Failover = Failover{Priorities: map[string]int{"b": 90, "c": 0}}
			b := outlasts(t, "b", config, record).hears("c", 1, 101)
			b.waits()
			b.explains("c is ahead of this instance")
			outlasts(t, "c", config, record).hears("b", 1, 99).takes()
		})
	}
}

func TestAnInstanceThatNeverTakesOverLeavesItToOthers(t *testing.T) {
	never := Failover{Never: []string{"b"}}
	b := outlasts(t, "b", with(required(1), never), held(1, "b", "c")).hears("c", 1, 90)
	b.passes(time.Hour).hears("c", 1, 90).waits()
	b.explains("b never becomes primary automatically")
	b.wants(Follow)

	outlasts(t, "c", with(required(1), never), held(1, "b", "c")).hears("b", 1, 100).takes() // its answer counts
	outlasts(t, "c", with(asynchronous(), never), held(0, "b", "c")).hears("b", 1, 101).takes()
	c := outlasts(t, "c", with(required(1), never), held(1, "b", "c")).hears("b", 1, 101)
	c.passes(time.Hour).hears("b", 1, 101).waits()
	c.explains("an acknowledged commit could be on it alone: set never: false for b")
}

func TestAnInstanceThatNeverTakesOverDoesSoIfAPersonNamesIt(t *testing.T) {
	never := Failover{Never: []string{"b"}}
	start(t, "b", with(required(1), never)).serves(Replica, 1, 100).sees(givenUp(1, "b", true, "b", "c")).takes()
	last := givenUp(0, "", false)
	last.LastHolder = "b"
	start(t, "b", with(required(1), never)).sees(last).takes()
	start(t, "b", with(required(1), never)).serves(Replica, 1, 100).sees(givenUp(1, "", true, "b", "c")).waits()
}

func TestNobodyReplacesAPrimaryThatFailsDuringAPause(t *testing.T) {
	pause := Failover{Paused: 30 * time.Second, Pause: "2030-01-02T03:04:05Z"}
	for name, record := range map[string]Record{"its lease runs out": held(1, "b"), "it is known to have ended": held(1, "b")} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "b", with(required(1), pause)).sees(record).serves(Replica, 1, 100)
			b.core.HolderEnded(b.now, 3)
			b.passes(limits.Expire).waits()
			b.explains("Automatic failover is paused until 2030-01-02T03:04:05Z")
			b.wants(Follow)
			if len(b.acts.Ask) > 0 {
				t.Error("it asks others for their positions, who stop following for that")
			}
			if b.now = 29 * time.Second; b.step().Wake > pause.Paused {
				t.Errorf("it doesn't wake up when the pause ends: %s", b.acts.Wake)
			}
			b.waits()
			b.now = pause.Paused
			b.step()
			b.takes()
		})
	}
}

func TestAPauseEndsAsSoonAsSomebodyEndsIt(t *testing.T) {
	b := start(t, "b", with(required(1), Failover{Paused: time.Hour})).sees(held(1, "b")).serves(Replica, 1, 100)
	b.passes(limits.Expire).waits()
	b.core.Configure(required(1))
	b.step()
	b.takes()
}

func TestALeaseThatIsGivenUpIsTakenDuringAPause(t *testing.T) {
	b := start(t, "b", with(required(1), Failover{Paused: time.Hour})).serves(Replica, 1, 100)
	b.sees(givenUp(1, "b", true, "b")).takes()
	a := start(t, "a", with(required(1), Failover{Paused: time.Hour})).sees(givenUp(1, "", true, "b"))
	a.takes() // it was primary last
}

func TestAPrimaryDoesNotGiveUpByItselfDuringAPause(t *testing.T) {
	paused := with(asynchronous(), Failover{Paused: time.Hour})
	hopeless := Server{Mode: Down, Hopeless: true, Position: agentPosition(1, 100)}
	for name, server := range map[string]Server{"its server doesn't come up": hopeless, "its disk doesn't respond": stalledAt(Primary)} {
		t.Run(name, func(t *testing.T) {
			a := leader(t, paused, held(0, "b"))
			a.follow("b").renews(limits.Revive)
			a.observes(server).wants(Lead)
			a.core.Leave()
			a.step()
			a.wants(Stop) // its pod ends
		})
	}
}

func TestASwitchoverIsCarriedOutDuringAPause(t *testing.T) {
	a := leader(t, with(asynchronous(), Failover{Paused: time.Hour}), held(0, "b"))
	a.follow("b")
	a.core.Switchover(ask("b"))
	a.step()
	a.wants(Stop)
}

func TestAFencedPrimaryHandsOverInOrder(t *testing.T) {
	fenced := with(asynchronous(), Failover{Fenced: []string{"a"}})
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b", "c")
	a.core.Configure(fenced)
	a.step()
	a.wants(Stop)
	if !a.acts.Want.Orderly {
		t.Error("it is killed")
	}
	a.observes(Server{Mode: Down, End: 120, Position: agentPosition(1, 121)})
	a.hears("b", 1, 121).hears("c", 1, 121)
	if r := a.writes(Written); r.Holder != "" || r.Successor != "b" || !r.Complete {
		t.Errorf("%+v", r)
	}
	a.wants(Stop)
	a.explains("spec.failover.fenced names a")
	a.passes(time.Hour).waits()
	took := held(0, "c")
	took.Version, took.Holder, took.HolderUID, took.LastHolder, took.Term = "9", "b", "b-1", "b", 5
	a.sees(took).wants(Stop)
	a.core.Configure(asynchronous())
	a.step()
	a.wants(Follow)
}

func TestAFencedPrimaryThatNobodyCanReplaceStopsAndComesBack(t *testing.T) {
	fenced := with(asynchronous(), Failover{Fenced: []string{"a"}})
	a := leader(t, asynchronous(), held(0))
	a.core.Configure(fenced)
	a.step()
	a.wants(Stop)
	a.observes(Server{Mode: Down, End: 120, Position: agentPosition(1, 121)})
	a.writes(Written)
	a.passes(time.Hour).waits()
	a.core.Configure(asynchronous())
	a.step()
	a.takes()
}

func TestAFencedInstanceIsStoppedWhateverItWas(t *testing.T) {
	fenced := Failover{Fenced: []string{"a"}}
	replica := start(t, "a", with(asynchronous(), fenced))
	replica.wants(Stop) // before it has read the Lease
	record := held(0, "a")
	record.Holder, record.HolderUID, record.LastHolder = "b", "b-1", "b"
	replica.sees(record).serves(Replica, 1, 100).wants(Stop)
	replica.passes(time.Hour).waits()
	if !replica.acts.Want.Orderly {
		t.Error("a replica is killed")
	}

	alone := start(t, "a", with(Config{Alone: true, Peers: peers(1)}, fenced))
	alone.sees(Record{Version: "1"}).serves(Primary, 1, 100).wants(Stop)
	if !alone.acts.Want.Orderly || alone.acts.Want.Until != Forever {
		t.Errorf("%+v", alone.acts.Want)
	}
	alone.serves(Down, 1, 100).wants(Stop)
	alone.core.Configure(Config{Alone: true, Peers: peers(1)})
	alone.step()
	alone.wants(Lead)
}

func TestNobodySwitchesOverToAFencedInstance(t *testing.T) {
	a := leader(t, with(asynchronous(), Failover{Fenced: []string{"b"}, Never: []string{"c"}}), held(0, "b", "c"))
	a.follow("b", "c")
	if s := a.core.Switchover(ask("b")); !strings.Contains(s.Message, "spec.failover.fenced names b") {
		t.Errorf("%+v", s)
	}
}

func TestAPlannedHandoverGoesToTheHighestPriority(t *testing.T) {
	for name, c := range map[string]struct {
		failover Failover
		want     string
	}{
		"as usual":         {Failover{}, "b"},
		"by priority":      {Failover{Priorities: map[string]int{"c": 60}}, "c"},
		"but never to b":   {Failover{Never: []string{"b"}}, "c"},
		"nobody is left":   {Failover{Never: []string{"b", "c"}}, ""},
		"a low one is one": {Failover{Priorities: map[string]int{"b": 0}}, "c"},
	} {
		a := leader(t, with(asynchronous(), c.failover), held(0, "b", "c"))
		a.follow("b", "c")
		a.core.Leave()
		a.step()
		a.observes(Server{Mode: Down, End: 120, Position: agentPosition(1, 121)})
		a.hears("b", 1, 122).hears("c", 1, 121)
		if r := a.writes(Written); r.Successor != c.want {
			t.Errorf("%s: %q takes over, not %q", name, r.Successor, c.want)
		}
	}
}

func TestADelayedReplicaIsNoMemberAndNoCommitWaitsForIt(t *testing.T) {
	for name, config := range map[string]Config{"commits wait": required(1), "commits wait while there are replicas": preferred(2), "nothing waits": asynchronous()} {
		t.Run(name, func(t *testing.T) {
			a := leader(t, config, Record{Version: "1"})
			settles := func() {
				for range 4 { // PostgreSQL and the record follow each other
					a.follow("b", "c").serves(Primary, 1, 100)
					a.renews(2 * time.Second)
				}
			}
			settles()
			same(t, "before", a.core.Record().Members, "b", "c")
			a.core.Configure(with(config, Failover{Delayed: []string{"c"}}))
			settles()
			record := a.core.Record()
			same(t, "members", record.Members, "b")
			if waits := a.acts.Want.Sync; record.Quorum != min(config.Number, 1) || waits.Quorum != record.Quorum || slices.Contains(waits.Members, "c") {
				t.Errorf("the quorum is %d, and commits wait for %+v", record.Quorum, waits)
			}
		})
	}
}

func TestADelayedReplicaTakesNoLease(t *testing.T) {
	late := Failover{Delayed: []string{"b"}}
	everything := givenUp(0, "", true)
	everything.End = End{Timeline: 1, LSN: 99}
	for name, record := range map[string]Record{
		"all were stopped in order, and it has everything": everything,
		"it was a member when the primary died":            held(1, "b", "c"),
		"a person has named it":                            givenUp(1, "b", true, "b", "c"),
	} {
		t.Run(name, func(t *testing.T) {
			b := outlasts(t, "b", with(required(1), late), record).hears("c", 1, 90)
			b.passes(time.Hour).hears("c", 1, 90).waits()
			b.explains("b is a delayed replica")
			b.wants(Follow)
		})
	}
	last := givenUp(0, "", false)
	last.LastHolder = "b"
	start(t, "b", with(required(1), late)).sees(last).takes() // it is the primary, and becomes a replica with the next switchover
	if a := start(t, "a", with(required(1), late)).sees(held(1, "c")); a.acts.Want.Delayed {
		t.Error("another one replays late")
	}
}

func TestAReplicaReplaysLateOnceNobodyCountsOnIt(t *testing.T) {
	late := with(required(1), Failover{Delayed: []string{"b"}})
	b := start(t, "b", late).serves(Replica, 1, 100).sees(held(1, "b", "c"))
	if b.acts.Want.Delayed {
		t.Error("commits wait for it still")
	}
	next := held(1, "c")
	next.Version = "6"
	if b.sees(next); !b.acts.Want.Delayed {
		t.Error("it doesn't replay late")
	}
}

func TestASwitchoverToADelayedReplicaIsRefused(t *testing.T) {
	a := leader(t, with(asynchronous(), Failover{Delayed: []string{"b"}}), held(0, "b", "c"))
	a.follow("b", "c")
	answer := a.core.Switchover(agentapi.SwitchoverRequest{Token: "t", To: "b"})
	if answer.State != agentapi.SwitchoverRefused || !strings.Contains(answer.Message, "remove it from spec.delayedReplicas first") {
		t.Errorf("%+v", answer)
	}
}
