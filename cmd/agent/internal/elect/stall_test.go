package elect

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func stalledAt(mode Mode) Server {
	return Server{Mode: mode, Stalled: true, Position: agentapi.Position{Timeline: 1, LSN: 100}}
}

func TestAPrimaryWhoseDiskDoesNotAnswerIsKilledAndGivesTheLeaseUp(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b", "c")
	a.observes(stalledAt(Primary)).wants(Stop)
	if a.acts.Want.Orderly {
		t.Fatal("an orderly stop waits for the disk")
	}
	a.waits() // nothing is given up before nothing can be acknowledged any more
	a.observes(stalledAt(Down))
	a.hears("b", 1, 90).hearsPosition(agentapi.Position{Pod: "c", Replica: true, Timeline: 1, LSN: 95, Stalled: true})
	a.passes(limits.Handover)
	r := a.writes(Written)
	if r.Holder != "" || r.LastHolder != "a" || r.Successor != "b" || r.Complete {
		t.Errorf("%+v", r)
	}
	same(t, "members", r.Members, "b", "c")
}

func TestALeaseIsNotRenewedWhileAServerThatHangsMayStillAcknowledge(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.follow("b")
	a.renews(time.Second)
	a.observes(stalledAt(Primary))
	for end := a.now + limits.Fence; a.now < end; {
		a.passes(100 * time.Millisecond)
		a.waits()
	}
	if a.core.Holds() {
		t.Error("it holds a lease that it has not renewed")
	}
	a.passes(time.Hour).waits()
}

func TestAPrimaryWhoseDiskDoesNotAnswerGoesOnWhereNobodyCouldTakeOver(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.observes(stalledAt(Primary)).wants(Lead) // b doesn't stream: its disk may be on the same storage
	a.renews(limits.Renew)
	a.wants(Lead)
	a.follow("b")
	a.wants(Stop)

	a = leader(t, asynchronous(), held(0))
	a.observes(stalledAt(Primary)).wants(Lead)
}

func TestAPrimaryThatCannotStartOnADiskThatDoesNotAnswerGivesTheLeaseUp(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.observes(stalledAt(Starting)).wants(Stop)
	a.observes(stalledAt(Down)).passes(limits.Handover)
	if r := a.writes(Written); r.Holder != "" {
		t.Errorf("%+v", r)
	}
}

func TestAShutdownThatADiskHoldsUpIsCutShort(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.follow("b")
	a.core.Leave()
	a.step()
	a.wants(Stop)
	a.observes(stalledAt(Starting)).wants(Stop)
	if a.acts.Want.Orderly {
		t.Error("the shutdown waits for the disk")
	}
}

func TestASwitchoverThatADiskHoldsUpIsNotTakenBack(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.follow("b")
	a.core.Switchover(ask("b"))
	a.step()
	a.observes(stalledAt(Starting))
	a.observes(stalledAt(Down)).passes(limits.Handover)
	a.wants(Stop)
	if r := a.writes(Written); r.Holder != "" {
		t.Errorf("%+v", r)
	}
}

func TestAnInstanceWhoseDiskDoesNotAnswerDoesNotTakeOver(t *testing.T) {
	b := start(t, "b", asynchronous()).sees(givenUp(0, "b", true, "b", "c"))
	b.observes(stalledAt(Replica)).waits()
	b.passes(time.Minute).waits()
	if !strings.Contains(b.acts.Want.Why, "disk") {
		t.Errorf("why: %q", b.acts.Want.Why)
	}
	a := start(t, "a", asynchronous())
	a.observes(stalledAt(Down))
	a.sees(givenUp(0, "", false, "b")).passes(time.Minute).waits()
	b.serves(Replica, 1, 100).takes()
}

// What a replica has flushed is there, whether its disk continues or not.
func TestThePositionOfAReplicaWhoseDiskDoesNotAnswerCountsAndIsNotWaitedFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		quorum int
		lsn    uint64
		takes  bool
	}{
		{"it has as much", 1, 100, true},
		{"it is ahead, and a commit may be there only", 1, 110, false},
		{"it is ahead, and nothing was promised", 0, 110, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := asynchronous()
			if test.quorum > 0 {
				config = required(test.quorum)
			}
			c := start(t, "c", config).sees(held(test.quorum, "b", "c")).serves(Replica, 1, 100)
			c.passes(limits.Expire)
			c.hearsPosition(agentapi.Position{Pod: "b", Replica: true, Timeline: 1, LSN: test.lsn, Stalled: true})
			if test.takes {
				c.takes()
			} else {
				c.waits()
			}
		})
	}
}
