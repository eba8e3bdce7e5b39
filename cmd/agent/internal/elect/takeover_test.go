package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// TestWhoWasPrimaryLastReturnsOnceItsVolumeCanBeRead: a disk may not have answered when the agent started.
func TestWhoWasPrimaryLastReturnsOnceItsVolumeCanBeRead(t *testing.T) {
	record := givenUp(0, "", false)
	a := &instance{T: t, core: New(Self{Name: "a", UID: "a-2", Address: "ip-a", Generation: generation}, asynchronous()), now: time.Second}
	a.sees(record).passes(limits.Expire).waits()
	Found(a.core, Self{})
	a.passes(1).waits()
	record.Checkpoint = End{Timeline: 1, LSN: 80}
	record.Version = "7"
	Found(a.core, Self{Whole: true, Timeline: 1, Checkpoint: End{Timeline: 1, LSN: 79}})
	a.sees(record).passes(1).waits() // it was rolled back
	b := &instance{T: t, core: New(Self{Name: "a", UID: "a-2", Address: "ip-a", Generation: generation}, asynchronous()), now: time.Second}
	b.sees(record).passes(limits.Expire).waits()
	Found(b.core, Self{Whole: true, Timeline: 1, Checkpoint: End{Timeline: 1, LSN: 80}})
	b.passes(1).takes()
}

func TestARestartedContainerRenewsAtOnce(t *testing.T) {
	a := start(t, "a", required(1)).sees(held(1, "b", "c"))
	r := a.takes()
	same(t, "members", r.Members, "b", "c")
	if r.Quorum != 1 || r.Term != 4 {
		t.Errorf("%+v", r)
	}
	a.wants(Idle) // until it is written
	a.writes(Written)
	a.wants(Lead)
	if a.acts.Want.Until != a.now+limits.Fence || a.acts.Want.Timeline != 1 || a.acts.Want.Sync.Quorum != 1 {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestAMemberTakesOverWhenTheLeaseHasRunOutOnItsOwnClock(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Replica, 1, 100)
	b.wants(Follow)
	b.passes(limits.Expire - time.Millisecond).waits()
	r := b.passes(time.Millisecond).takes()
	if r.Term != 4 || r.Quorum != 1 || r.LastHolder != "b" || r.Timeline != 2 {
		t.Errorf("%+v", r)
	}
	same(t, "members", r.Members, "a")
}

// Agents of two versions may have other limits: the holder's count, and the own ones.
func TestNobodyTakesOverBeforeTheHoldersLimit(t *testing.T) {
	for name, c := range map[string]struct{ holder, wait time.Duration }{
		"it says nothing":               {0, limits.Expire},
		"it is more patient":            {2 * limits.Expire, 2 * limits.Expire},
		"it is less patient":            {limits.Expire / 2, limits.Expire},
		"somebody has edited the Lease": {1000 * time.Hour, longestDuration},
	} {
		t.Run(name, func(t *testing.T) {
			record := held(1, "b")
			record.Duration = c.holder
			b := start(t, "b", required(1)).sees(record).serves(Replica, 1, 100)
			b.passes(c.wait - time.Millisecond).waits()
			if r := b.passes(time.Millisecond).takes(); r.Duration != limits.Expire {
				t.Errorf("it says that it keeps the lease for %s", r.Duration)
			}
		})
	}
}

func TestAPromiseLastsForAsLongAsThePrimaryCountsOnIt(t *testing.T) {
	record := held(1, "b")
	record.Duration = 2 * limits.Expire
	b := start(t, "b", required(1)).sees(record).serves(Replica, 1, 100)
	b.passes(limits.Expire)
	if answer := b.core.AskedFailsafe(b.now, agentapi.FailsafeRequest{Leader: "a", Term: 3, Generation: generation}); !answer.Follows {
		t.Fatalf("%+v", answer)
	}
	b.passes(2*limits.Expire - time.Millisecond).waits()
	b.passes(time.Millisecond).takes()
}

func TestEveryRenewalBeginsTheTimeAnew(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Replica, 1, 100)
	b.passes(limits.Expire - time.Millisecond)
	renewed := held(1, "b")
	renewed.Version = "7"
	b.sees(renewed)
	b.passes(limits.Expire - time.Millisecond).waits()
	stale := held(1, "b")
	stale.Version = "6"
	b.sees(stale) // an old one says nothing new
	b.passes(time.Millisecond).takes()
}

func TestWhoIsNoMemberDoesNotTakeOver(t *testing.T) {
	c := start(t, "c", required(1)).sees(held(1, "b")).serves(Replica, 1, 900)
	c.passes(time.Minute).waits()
}

func TestWhoseServerIsDownDoesNotTakeOver(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b")).serves(Starting, 1, 100)
	b.passes(time.Minute).waits()
	b.serves(Replica, 0, 0).waits() // it is reading its WAL
	b.serves(Replica, 1, 100).takes()
}

func TestALeaseThatWasGivenUpIsTakenByACompleteSuccessorAtOnce(t *testing.T) {
	b := start(t, "b", required(1)).sees(givenUp(1, "b", true, "b", "c")).serves(Replica, 1, 100)
	r := b.takes()
	same(t, "members", r.Members, "a", "c")
	c := start(t, "c", required(1)).sees(givenUp(1, "b", true, "b", "c")).serves(Replica, 1, 100)
	c.hears("b", 1, 100).waits()
	c.passes(limits.Grace).hears("b", 1, 100).waits() // b is as far, and named
	c.passes(limits.Listen+limits.Grace).hears("b", 1, 100).takes()
}

func TestTheLastHolderComesBackWhenNoSuccessorDoes(t *testing.T) {
	a := start(t, "a", required(1)).sees(givenUp(1, "b", true, "b", "c"))
	a.waits()
	a.passes(limits.Grace).takes()
	start(t, "a", required(1)).sees(givenUp(1, "", false, "b", "c")).takes()
}

func TestQuorumArithmeticOfATakeover(t *testing.T) {
	for _, test := range []struct {
		name    string
		quorum  int
		members []string
		others  int // that have to answer
	}{
		{"one of one", 1, peers(5)[1:2], 0},
		{"one of two", 1, peers(5)[1:3], 1},
		{"two of two", 2, peers(5)[1:3], 0},
		{"one of three", 1, peers(5)[1:4], 2},
		{"two of three", 2, peers(5)[1:4], 1},
		{"two of four", 2, peers(5)[1:5], 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := start(t, "b", required(test.quorum)).sees(held(test.quorum, test.members...)).serves(Replica, 1, 100)
			b.passes(limits.Expire)
			for _, name := range test.members[1 : 1+test.others] {
				b.passes(limits.Listen).waits()
				b.hears(name, 1, 90)
			}
			if b.write == nil { // those that don't have to answer may
				b.passes(limits.Listen)
			}
			if r := b.takes(); r.Quorum != test.quorum || len(r.Members) != len(test.members) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestOnlyTheFurthestAheadTakesOver(t *testing.T) {
	for _, test := range []struct {
		name  string
		other agentapi.Position
		takes bool
	}{
		{"a member that lags", agentapi.Position{Timeline: 2, LSN: 99, Replica: true}, true},
		{"a member that is ahead", agentapi.Position{Timeline: 2, LSN: 101, Replica: true}, false},
		{"a member on a later timeline", agentapi.Position{Timeline: 3, LSN: 50, Replica: true}, false},
		{"a member on an earlier timeline", agentapi.Position{Timeline: 1, LSN: 500, Replica: true}, true},
		{"a member as far, whose name is first", agentapi.Position{Pod: "b", Timeline: 2, LSN: 100, Replica: true}, false},
		{"a member as far, whose name is last", agentapi.Position{Pod: "d", Timeline: 2, LSN: 100, Replica: true}, true},
		{"a member whose server is down", agentapi.Position{Timeline: 2, LSN: 10}, false},
		{"a member of another data generation", agentapi.Position{Generation: "g0", Timeline: 2, LSN: 10, Replica: true}, false},
		{"a member that has not read all of its WAL", agentapi.Position{Replica: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.other.Pod == "" {
				test.other.Pod = "b"
			}
			if test.other.Generation == "" {
				test.other.Generation = generation
			}
			record := held(1, "c", test.other.Pod)
			record.Timeline = 3
			c := start(t, "c", required(1)).sees(record).serves(Replica, 2, 100)
			c.passes(limits.Expire)
			c.core.Heard(c.now, test.other)
			if c.step(); (c.write != nil) != test.takes {
				t.Errorf("%+v", c.acts)
			}
		})
	}
}

func TestWithAQuorumWhoIsBehindWaitsForever(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	b.passes(limits.Expire)
	for range 60 {
		b.passes(time.Second).hears("c", 1, 101).waits()
	}
}

func TestWithoutAQuorumThoseThatAnswerInTimeDecide(t *testing.T) {
	b := start(t, "b", asynchronous()).sees(held(0, "b", "c")).serves(Replica, 1, 100)
	b.passes(limits.Expire).waits()
	b.passes(limits.Listen - time.Millisecond).waits()
	b.passes(time.Millisecond).takes()

	b = start(t, "b", asynchronous()).sees(held(0, "b", "c")).serves(Replica, 1, 100)
	b.passes(limits.Expire).hears("c", 1, 101).waits()
	b.passes(limits.Listen).hears("c", 1, 101).waits()
	b.passes(limits.Grace).hears("c", 1, 101).takes() // c can't, it seems
}

func TestAnAnswerToAnEarlierQuestionDoesNotCount(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	before := b.now
	b.passes(limits.Expire)
	b.core.Heard(before, agentapi.Position{Pod: "c", Generation: generation, Replica: true, Timeline: 1, LSN: 90})
	b.step()
	b.waits()
	b.hears("c", 1, 90).takes()
}

func TestAnAnswerAboutTheLeaseBeforeDoesNotCount(t *testing.T) {
	b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
	b.passes(limits.Expire).waits()
	asked := b.now
	again := held(1, "b", "c")
	again.Version = "6"
	b.passes(time.Millisecond).sees(again) // it did come back, and commits
	b.passes(limits.Expire)
	b.core.Heard(asked, agentapi.Position{Pod: "c", Generation: generation, Replica: true, Timeline: 1, LSN: 90})
	b.step()
	b.waits()
}

func TestTheQuorumOfANewPrimary(t *testing.T) {
	for _, test := range []struct {
		name    string
		config  Config
		quorum  int
		answers []string
		members []string
		want    int
	}{
		{"required stays, whoever is there", required(2), 2, nil, []string{"a", "c"}, 2},
		{"preferred is lowered to who is there", preferred(2), 2, []string{"c"}, []string{"a", "c"}, 1},
		{"preferred with nobody there leaves nobody to take over", preferred(2), 2, nil, nil, 0},
		{"asynchronous leaves the old primary out", asynchronous(), 0, []string{"c"}, []string{"c"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := start(t, "b", test.config).sees(held(test.quorum, "b", "c")).serves(Replica, 1, 100)
			b.passes(limits.Expire)
			for _, name := range test.answers {
				b.hears(name, 1, 90)
			}
			if b.write == nil {
				b.passes(limits.Listen)
			}
			r := b.takes()
			same(t, "members", r.Members, test.members...)
			if r.Quorum != test.want {
				t.Errorf("quorum %d, not %d", r.Quorum, test.want)
			}
		})
	}
}

func TestANewPodOfTheHolderWaitsForTheOldOne(t *testing.T) {
	fresh := func() *instance {
		a := start(t, "a", required(1))
		a.core.self.UID = "a-2"
		a.sees(held(1, "b")).waits()
		return a.passes(limits.Expire)
	}
	a := fresh()
	a.waits() // b hasn't said anything
	a.hearsPosition(agentapi.Position{Pod: "b", Streaming: true}).waits()
	a.hearsPosition(agentapi.Position{Pod: "b", Promised: true}).waits()
	a.hearsPosition(agentapi.Position{Pod: "b"}).takes()

	a = fresh()
	a.hearsPosition(agentapi.Position{Pod: "b", Streaming: true})
	a.passes(limits.Expire).takes() // b is gone
}
