package elect

import (
	"testing"
	"time"
)

func TestAloneAndThenSeveralAndThenAloneAgain(t *testing.T) {
	a := start(t, "a", alone())
	a.wants(Idle)
	a.sees(Record{Version: "1"}).wants(Lead)
	a.serves(Primary, 1, 100).waits()
	if a.acts.Want.Until != Forever || a.acts.Refresh {
		t.Errorf("%+v", a.acts)
	}
	a.core.Configure(asynchronous())
	a.step()
	a.wants(Lead) // without a pause
	if r := a.writes(Written); r.Term != 1 || r.Holder != "a" {
		t.Errorf("%+v", r)
	}
	same(t, "members", a.follow("b").takes().Members, "b")
	a.writes(Written)
	if a.acts.Want.Until == Forever {
		t.Error("somebody could take over, and the server has no limit")
	}
	a.core.Configure(alone())
	a.passes(limits.Retry)
	same(t, "members", a.takes().Members)
	if a.acts.Want.Until == Forever {
		t.Error("b may take over until the write is confirmed")
	}
	a.writes(Written)
	a.passes(time.Hour).wants(Lead)
	a.waits()
	if a.acts.Want.Until != Forever {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestAloneAfterAnElectionTheLeaseIsHeldWithoutMembersBeforeItIsForgotten(t *testing.T) {
	a := start(t, "a", alone()).sees(held(0, "b"))
	a.wants(Idle) // b may take it
	a.writes(Written)
	a.wants(Lead)
	if a.acts.Want.Until == Forever {
		t.Error("b may take it, and nothing is fenced")
	}
	a.passes(limits.Retry)
	same(t, "members", a.takes().Members)
	a.writes(Written)
	a.passes(time.Hour).waits()
	if a.acts.Want.Until != Forever {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestAloneWhoLosesTheLeaseDoesNotLead(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.core.Configure(alone())
	a.passes(limits.Retry)
	a.writes(Unknown)
	a.passes(limits.Fence).wants(Stop)
}

func TestSeveralIsNotLedByWhoWasAloneIfTheLeaseSaysOtherwise(t *testing.T) {
	other := held(0)
	other.Holder, other.LastHolder = "b", "b"
	a := start(t, "a", alone()).serves(Primary, 1, 100)
	a.core.Configure(asynchronous())
	a.sees(other).wants(Stop)
}

func TestAloneAPodThatEndsIsStoppedInOrderWithoutALease(t *testing.T) {
	a := start(t, "a", alone()).serves(Primary, 1, 100)
	a.core.Leave()
	a.step()
	a.wants(Stop)
	a.waits()
	if !a.acts.Want.Orderly || a.acts.Want.Until != Forever {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestAnInstanceOfAnOldConfigurationIsNotAlone(t *testing.T) {
	b := start(t, "b", alone())
	b.wants(Idle)
	b.sees(held(0)).wants(Follow)
}

func TestWhoWasAloneHasNoMembersLeftFromBefore(t *testing.T) {
	a := start(t, "a", alone()).sees(Record{}) // it is told of no Lease
	a.serves(Primary, 1, 100).wants(Lead)
	a.core.Configure(required(1))
	a.core.Reread()
	if r := a.sees(held(1, "b")).takes(); len(r.Members) > 0 || r.Quorum > 0 {
		t.Errorf("b has nothing of what was committed meanwhile: %+v", r)
	}
}

func TestAloneWithTheLeaseAPodThatEndsIsStoppedInOrderToTheEnd(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.core.Configure(alone())
	a.core.Leave()
	for range 3 {
		if a.passes(time.Second).wants(Stop); !a.acts.Want.Orderly {
			t.Fatal("it is killed")
		}
	}
	if a.serves(Down, 1, 100); a.core.Holds() {
		t.Error("it holds on")
	}
}
