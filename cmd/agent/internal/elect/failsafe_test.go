package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func request(term int64) agentapi.FailsafeRequest {
	return agentapi.FailsafeRequest{Leader: "a", Generation: generation, Term: term}
}

func TestAHolderThatCanNotRenewIsFencedUnlessAllMembersFollow(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c"))
	confirmed := a.now
	a.passes(limits.Renew)
	a.writes(Unknown)
	a.passes(limits.Failsafe - limits.Renew)
	question := a.acts.Failsafe
	if question == nil || question.Request != request(4) {
		t.Fatalf("%+v", a.acts)
	}
	same(t, "asked", question.Members, "b", "c")
	started := a.now
	a.core.HeardFailsafe(question.ID, "b", true)
	a.core.HeardFailsafe(question.ID, "b", true)
	if a.step().Want.Until != confirmed+limits.Fence || a.core.Failsafe() {
		t.Error("the word of one was enough")
	}
	a.core.HeardFailsafe(question.ID, "c", true)
	if a.step().Want.Until != started+limits.Fence || !a.core.Failsafe() {
		t.Errorf("%+v", a.acts.Want)
	}
	a.passes(limits.Fence).wants(Stop)
	if a.core.Holds() {
		t.Error("it holds on")
	}
}

func TestAnAnswerToAnEarlierRoundDoesNotCount(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.passes(limits.Failsafe)
	old := a.acts.Failsafe.ID
	a.passes(limits.Retry)
	a.core.HeardFailsafe(old, "b", true)
	if a.step(); a.core.Failsafe() {
		t.Error("an old answer counted")
	}
}

func TestAPromiseIsKept(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Replica, 1, 100)
	b.passes(limits.Expire - time.Second)
	if answer := b.core.AskedFailsafe(b.now, request(3)); !answer.Follows {
		t.Fatalf("%+v", answer)
	}
	b.passes(limits.Expire - time.Millisecond).waits()
	if !b.core.Promised(b.now) {
		t.Error("the promise is forgotten")
	}
	b.passes(time.Millisecond).takes()
}

func TestNothingIsPromisedToWhoIsNotTheHolder(t *testing.T) {
	for name, r := range map[string]agentapi.FailsafeRequest{
		"a term before":           request(2),
		"another in the same":     {Leader: "c", Generation: generation, Term: 3},
		"another data generation": {Leader: "a", Generation: "g0", Term: 3},
	} {
		b := start(t, "b", required(1)).sees(held(1, "b"))
		if b.core.AskedFailsafe(b.now, r).Follows {
			t.Error(name)
		}
	}
	b := start(t, "b", required(1))
	if b.core.AskedFailsafe(b.now, request(3)).Follows {
		t.Error("the Lease has not been read")
	}
	b.sees(held(1, "b")).serves(Replica, 1, 100).passes(limits.Expire).takes()
	if b.core.AskedFailsafe(b.now, request(3)).Follows {
		t.Error("it is taking over")
	}
}

func TestAMemberThatMayHaveBeenAddedIsAskedToo(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.follow("b", "c")
	a.writes(Unknown)
	a.core.SawLease(a.now, *a.core.Record())
	a.passes(limits.Failsafe)
	if a.acts.Failsafe == nil {
		t.Fatalf("%+v", a.acts)
	}
	same(t, "asked", a.acts.Failsafe.Members, "b", "c")
	a.core.HeardFailsafe(a.acts.Failsafe.ID, "b", true)
	if a.core.Failsafe() {
		t.Error("c may take over and has promised nothing")
	}
}

func TestWithoutMembersNothingIsFenced(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.passes(limits.Renew)
	a.writes(Unknown)
	a.passes(time.Hour).wants(Lead)
	if a.acts.Want.Until != Forever || a.acts.Failsafe != nil {
		t.Errorf("%+v", a.acts)
	}
}

func TestNobodyIsAddedWhileTheLeaseCanNotBeRenewed(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.passes(limits.Renew)
	a.writes(Unknown)
	a.follow("b")
	a.core.SawLease(a.now, *a.core.Record())
	a.passes(time.Minute).wants(Lead)
	same(t, "members", a.takes().Members)
	a.writes(Written)
	same(t, "members", a.takes().Members, "b")
}
