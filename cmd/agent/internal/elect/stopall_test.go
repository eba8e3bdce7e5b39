package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// ended is what the primary a leaves in the Lease when its pod ends in order at position 120, while b and c answer with these
// positions; nil: that instance has ended before.
func ended(t *testing.T, config Config, quorum int, b, c *agentapi.Position) Record {
	t.Helper()
	a := leader(t, config, held(quorum, "b", "c"))
	a.follow("b", "c")
	a.core.Leave()
	a.step()
	a.observes(Server{Mode: Starting})
	deserted := b == nil && c == nil
	a.observes(Server{Mode: Down, End: 120, Deserted: deserted, Position: agentapi.Position{Timeline: 1, LSN: 121}})
	for name, p := range map[string]*agentapi.Position{"b": b, "c": c} {
		if p != nil && a.core.Holds() {
			p.Pod = name
			a.hearsPosition(*p)
		}
	}
	for a.write == nil {
		a.passes(100 * time.Millisecond)
	}
	return a.writes(Written)
}

func replicaAt(lsn uint64) *agentapi.Position {
	return &agentapi.Position{Replica: true, Timeline: 1, LSN: lsn}
}

func TestAfterAnOrderlyStopOfAllWhoLacksRowsWaitsForTheLastPrimary(t *testing.T) {
	for name, test := range map[string]struct{ b, c *agentapi.Position }{
		"all replicas ended before":           {nil, nil},
		"one of them answers, and lags":       {replicaAt(120), nil},
		"one is ending":                       {&agentapi.Position{Timeline: 1, LSN: 121}, nil},
		"one lags, and another has all of it": {replicaAt(120), replicaAt(121)},
	} {
		for kind, config := range map[string]Config{"asynchronous": asynchronous(), "required": required(1), "preferred": preferred(1)} {
			t.Run(kind+", "+name, func(t *testing.T) {
				record := ended(t, config, config.Number, test.b, test.c)
				b := start(t, "b", config).sees(record).serves(Replica, 1, 120)
				for range 60 {
					b.passes(time.Second).hears("c", 1, 110).waits()
				}
				a := start(t, "a", config)
				a.core.self.UID = "a-2"
				a.sees(record).passes(limits.Grace)
				if r := a.takes(); r.Term != record.Term+1 {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

func TestWhoHasEverythingAfterAnOrderlyEndTakesOverWhetherOrNotItWasHeard(t *testing.T) {
	for kind, config := range map[string]Config{"asynchronous": asynchronous(), "required": required(1)} {
		t.Run(kind, func(t *testing.T) {
			record := ended(t, config, config.Number, nil, nil)
			if len(record.Members) > 0 || record.Quorum > 0 {
				t.Errorf("nobody was heard: %+v", record)
			}
			b := start(t, "b", config).sees(record).serves(Replica, 0, 0)
			b.passes(time.Second).waits() // it has not read all of its WAL yet
			if r := b.serves(Replica, 1, 121).takes(); r.End != record.End {
				t.Errorf("the previous end is forgotten: %+v", r)
			}
		})
	}
}

func TestASuccessorThatIsStoppedBeforeItHasBegunLeavesNothingToWhoLacksRows(t *testing.T) {
	record := ended(t, asynchronous(), 0, replicaAt(121), nil)
	b := start(t, "b", asynchronous()).sees(record).serves(Replica, 1, 121)
	b.writes(Written)
	b.core.Leave()
	b.step()
	b.wants(Stop)
	b.serves(Down, 0, 0).passes(limits.Handover)
	next := b.writes(Written)
	if next.Holder != "" || next.End != record.End || next.Complete {
		t.Errorf("%+v", next)
	}
	start(t, "c", asynchronous()).sees(next).serves(Replica, 1, 120).passes(time.Minute).waits()
	next.Members = members("c") // as an earlier agent might have left it
	start(t, "c", asynchronous()).sees(next).serves(Replica, 1, 120).passes(time.Minute).waits()
	start(t, "c", asynchronous()).sees(next).serves(Replica, 2, 90).passes(time.Minute).takes() // of a later timeline
}

func TestWhoIsNotConnectedWhenThePrimaryEndsIsTakenOutOfTheLeaseBeforeItIsGivenUp(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b")
	a.core.Leave()
	a.step()
	a.waits() // clients still write
	a.observes(Server{Mode: Starting})
	same(t, "members", a.writes(Written).Members, "b")
	a.observes(Server{Mode: Down, End: 120, Position: agentapi.Position{Timeline: 1, LSN: 121}})
	a.hears("b", 1, 121)
	same(t, "members", a.takes().Members, "b")
}

func TestAnAsynchronousPrimaryThatDoesNotEndInOrderLeavesTheLeaseToThoseThatAreUp(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b", "c")
	a.core.Leave()
	a.step()
	a.observes(Server{Mode: Starting})
	a.observes(Server{Mode: Down})
	a.hears("b", 1, 110)
	a.passes(limits.Handover)
	r := a.writes(Written)
	if same(t, "members", r.Members, "b"); r.Successor != "b" || r.Complete {
		t.Errorf("%+v", r)
	}
}

func TestTheLastPrimaryDoesNotReturnWithoutAWholeCopy(t *testing.T) {
	record := ended(t, asynchronous(), 0, nil, nil)
	a := start(t, "a", asynchronous())
	a.core.self.UID, a.core.self.Whole = "a-2", false
	a.sees(record).passes(time.Minute).waits()
	a.wants(Idle)
	if a.acts.Want.Why == "" {
		t.Error("nobody is told")
	}
}
