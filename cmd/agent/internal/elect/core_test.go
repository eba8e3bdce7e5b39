package elect

import "testing"

func TestAfterAConflictTheLeaseIsReadBeforeItIsWritten(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.passes(limits.Renew)
	a.writes(Conflict)
	a.passes(limits.Retry).waits()
	if !a.acts.Refresh {
		t.Fatal("it isn't read")
	}
	ours := *a.core.Record()
	ours.Version = "50" // a write of ours of which no answer came
	a.sees(ours)
	if r := a.takes(); r.Version != "50" {
		t.Errorf("%+v", r)
	}
}

func TestWhoSeesAnotherHolderStopsAtOnce(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	other := held(0, "c")
	other.Version, other.Holder, other.HolderUID, other.LastHolder, other.Term = "99", "b", "b-1", "b", 9
	a.sees(other).wants(Stop)
	if a.acts.Want.Orderly {
		t.Error("in order")
	}
	a.serves(Down, 1, 100).wants(Follow)
}

func TestAnotherPodOfTheSameNameIsAnotherHolder(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	other := held(0, "b")
	other.Version, other.HolderUID, other.Term = "99", "a-2", 5
	a.sees(other).wants(Stop)
}

func TestARenewalCountsFromWhenItWasSent(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.passes(limits.Renew)
	sent, write := a.now, a.write
	a.passes(limits.Renew)
	a.core.Wrote(a.now, write, Written, "77")
	if until := a.step().Want.Until; until != sent+limits.Fence {
		t.Errorf("until %s, sent at %s", until, sent)
	}
}

func TestARenewalThatIsConfirmedTooLateDoesNotHelp(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.passes(limits.Renew)
	write := a.write
	a.passes(limits.Fence).wants(Stop)
	a.core.Wrote(a.now, write, Written, "77")
	a.step()
	a.wants(Stop)
}

func TestAFencedHolderComesBackByRenewing(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b"))
	a.passes(limits.Renew)
	a.writes(Unknown)
	a.passes(limits.Fence).serves(Down, 1, 100).wants(Idle)
	a.sees(*a.core.Record())
	a.writes(Written)
	a.wants(Lead)
}

func TestAWriteThatMetItselfCounts(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.follow("b")
	same(t, "members", a.takes().Members, "b")
	a.writes(Conflict)
	if a.acts.Want.Until == Forever {
		t.Error("b may be a member by now")
	}
}
