package elect

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func ask(to string) agentapi.SwitchoverRequest {
	return agentapi.SwitchoverRequest{Token: "t1", To: to}
}

// stopped is a primary whose server has ended in order, at position 120, because a switchover to b was asked for.
func stopped(t *testing.T) *instance {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b", "c")
	if s := a.core.Switchover(ask("b")); s.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", s)
	}
	a.step()
	a.wants(Stop)
	if !a.acts.Want.Orderly || a.acts.Want.Until != a.now+limits.Fence {
		t.Fatalf("%+v", a.acts.Want)
	}
	return a.observes(Server{Mode: Down, End: 120, Position: agentapi.Position{Timeline: 1, LSN: 121}})
}

func TestASwitchoverIsRefusedWithAReason(t *testing.T) {
	for _, test := range []struct{ name, to, want string }{
		{"no instance", "x", "is not an instance of this cluster"},
		{"no member", "c", "doesn't follow closely enough"},
	} {
		a := leader(t, asynchronous(), held(0, "b"))
		a.follow("b")
		if s := a.core.Switchover(ask(test.to)); s.State != agentapi.SwitchoverRefused || !s.Untouched || !strings.Contains(s.Message, test.want) {
			t.Errorf("%s: %+v", test.name, s)
		}
	}
	a := leader(t, asynchronous(), held(0, "b"))
	if s := a.core.Switchover(ask("")); s.State != agentapi.SwitchoverRefused {
		t.Errorf("nobody streams: %+v", s)
	}
	b := start(t, "b", asynchronous()).sees(held(0, "b"))
	if s := b.core.Switchover(ask("c")); s.State != agentapi.SwitchoverRefused {
		t.Errorf("a replica: %+v", s)
	}
	a = leader(t, asynchronous(), held(0, "b"))
	if s := a.core.Switchover(ask("a")); s.State != agentapi.SwitchoverDone {
		t.Errorf("the primary itself: %+v", s)
	}
}

func TestASwitchoverIsTakenBackOnlyBeforeTheServerEnds(t *testing.T) {
	begun := func() *instance {
		a := leader(t, asynchronous(), held(0, "b"))
		a.follow("b")
		a.core.Switchover(ask("b"))
		a.step()
		a.wants(Stop)
		return a
	}
	a := begun()
	if !TakeBack(a.core, "busy") || TakeBack(a.core, "busy") {
		t.Error("it is not taken back once")
	}
	a.step()
	a.wants(Lead)
	if s := a.core.SwitchoverStatus(); s.State != agentapi.SwitchoverRefused || s.Message != "busy" || s.Untouched {
		t.Errorf("%+v", s)
	}
	if s := a.core.Switchover(agentapi.SwitchoverRequest{Token: "t2", To: "b"}); s.State != agentapi.SwitchoverRunning {
		t.Errorf("the next one: %+v", s)
	}
	if a := begun().observes(Server{Mode: Starting}); TakeBack(a.core, "busy") {
		t.Error("it is taken back although the server is ending")
	}
	if a := stopped(t); TakeBack(a.core, "busy") {
		t.Error("it is taken back although the server has ended")
	}
	a = begun()
	a.core.Leave()
	if a.step(); TakeBack(a.core, "busy") {
		t.Error("the end of a pod is taken back")
	}
	a = leader(t, asynchronous(), held(0, "b"))
	if TakeBack(a.core, "busy") {
		t.Error("there was none")
	}
}

func TestAHandoverGoesToWhoHasLittleToReplayUnlessAnotherHasPriority(t *testing.T) {
	for name, c := range map[string]struct {
		priorities map[string]int
		to         string
	}{
		"all have the same priority":    {nil, "c"},
		"who has much to replay has it": {map[string]int{"b": 200}, "b"},
	} {
		config := asynchronous()
		config.Failover.Priorities = c.priorities
		a := leader(t, config, held(0, "b", "c"))
		a.core.Follow(a.now, map[string]Follower{
			"b": {Address: "ip-b", Streaming: true, Flushed: 1 << 30, Replayed: 1000}, "c": {Address: "ip-c", Streaming: true, Flushed: 1 << 30, Replayed: 1 << 30},
		})
		a.core.Switchover(ask(""))
		a.step()
		a.observes(Server{Mode: Down, End: 1 << 30, Position: agentapi.Position{Timeline: 1, LSN: 1<<30 + 1}})
		r := a.hears("b", 1, 1<<30+1).hears("c", 1, 1<<30+1).takes()
		if r.Successor != c.to || !r.Complete {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestASwitchoverGivesTheLeaseToWhoHasEverything(t *testing.T) {
	a := stopped(t)
	a.hears("c", 1, 120).hears("b", 1, 120).waits()
	a.passes(askPause).hears("b", 1, 121).waits() // c streamed, and may have it any moment
	a.passes(limits.Listen - askPause)
	r := a.takes()
	if r.Holder != "" || r.Successor != "b" || !r.Complete || r.LastHolder != "a" || r.Term != 4 || r.End != (End{1, 120}) {
		t.Errorf("%+v", r)
	}
	same(t, "members", r.Members, "b")
	a.writes(Written)
	if a.core.Holds() || a.core.SwitchoverStatus().State != agentapi.SwitchoverRunning {
		t.Errorf("%+v", a.core.SwitchoverStatus())
	}
	took := held(0, "c")
	took.Version, took.Holder, took.LastHolder, took.Term = "9", "b", "b", 5
	a.sees(took).wants(Follow)
	if s := a.core.Switchover(ask("b")); s.State != agentapi.SwitchoverDone {
		t.Errorf("the same token gets another answer: %+v", s)
	}
}

func TestASwitchoverIsTakenBackWhenTheReplicaDoesNotGetEverything(t *testing.T) {
	a := stopped(t)
	a.passes(limits.Handover-time.Millisecond).hears("b", 1, 120).wants(Stop)
	a.passes(time.Millisecond).wants(Lead)
	if s := a.core.SwitchoverStatus(); s.State != agentapi.SwitchoverRefused || s.Untouched || s.Message == "" {
		t.Errorf("%+v", s)
	}
}

func TestThereIsNoWayBackOnceTheLeaseMayHaveBeenGivenUp(t *testing.T) {
	a := stopped(t)
	a.hears("c", 1, 121).hears("b", 1, 121)
	a.passes(limits.Handover).wants(Stop) // the write is on its way
	a.writes(Unknown)
	a.core.SawLease(a.now, *a.core.Record())
	for a.core.Holds() {
		a.wants(Stop)
		a.passes(time.Second)
		if a.write != nil {
			a.writes(Unknown)
		}
	}
	a.wants(Idle)
}

func TestASwitchoverThatNobodyTakesUpIsRefusedInTheEnd(t *testing.T) {
	a := stopped(t)
	a.hears("c", 1, 121).hears("b", 1, 121)
	same(t, "members", a.writes(Written).Members, "b", "c")
	a.passes(limits.Grace)
	a.writes(Written)
	a.wants(Lead)
	if s := a.core.SwitchoverStatus(); s.State != agentapi.SwitchoverRefused || s.Untouched {
		t.Errorf("%+v", s)
	}
}

func TestAPodThatEndsGivesTheLeaseUp(t *testing.T) {
	for _, test := range []struct {
		name      string
		heard     string
		successor string
		complete  bool
	}{
		{"to who has everything", "c", "c", true},
		{"to nobody, if nobody answers", "", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := leader(t, asynchronous(), held(0, "b", "c"))
			a.follow("b", "c")
			a.core.Leave()
			a.step()
			a.wants(Stop)
			a.observes(Server{Mode: Down, End: 120, Position: agentapi.Position{Timeline: 1, LSN: 121}})
			if test.heard == "" {
				a.passes(limits.Handover)
			} else {
				a.hears(test.heard, 1, 121).passes(limits.Listen)
			}
			if r := a.writes(Written); r.Holder != "" || r.Successor != test.successor || r.Complete != test.complete || len(r.Members) != len(test.heard) {
				t.Errorf("%+v", r)
			}
			a.wants(Stop)
			a.passes(time.Hour).waits()
		})
	}
}

func TestAPodThatAllReplicasHaveLeftGivesTheLeaseUpAtOnce(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c"))
	a.follow("b", "c")
	a.core.Leave()
	a.step()
	a.observes(Server{Mode: Starting, Deserted: true}).waits()
	a.observes(Server{Mode: Down, End: 120, Deserted: true, Position: agentapi.Position{Timeline: 1, LSN: 121}})
	if r := a.writes(Written); r.Holder != "" || r.LastHolder != "a" || r.Successor != "" || !r.Complete || r.End.LSN != 120 || r.Quorum != 0 || len(r.Members) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAPodWithoutMembersThatEndsGivesTheLeaseUpAtOnce(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.core.Leave()
	a.step()
	a.observes(Server{Mode: Down, End: 120, Position: agentapi.Position{Timeline: 1, LSN: 121}})
	if r := a.takes(); r.Holder != "" || r.LastHolder != "a" {
		t.Errorf("%+v", r)
	}
}

func TestAReplicaThatEndsIsStoppedInOrder(t *testing.T) {
	b := start(t, "b", asynchronous()).sees(held(0, "b")).serves(Replica, 1, 100)
	b.core.Leave()
	b.step()
	b.wants(Stop)
	if !b.acts.Want.Orderly {
		t.Error("it is killed")
	}
}

func TestAServerThatDoesNotComeUpAgainIsGivenUpToTheFurthestAhead(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.observes(Server{Mode: Down, Hopeless: true, Position: agentapi.Position{Timeline: 1, LSN: 100}})
	a.wants(Lead) // it was somebody else's term
	a.renews(limits.Revive)
	a.wants(Stop)
	a.hears("b", 1, 90)
	a.hears("c", 1, 95)
	a.passes(limits.Handover)
	if r := a.writes(Written); r.Successor != "c" || r.Complete {
		t.Errorf("%+v", r)
	}
}

func alone() Config { return Config{Alone: true, Peers: peers(1)} }
