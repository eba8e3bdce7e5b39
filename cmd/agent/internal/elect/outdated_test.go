package elect

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// later is a record that was written after another one.
func sequel(r Record, version string) Record {
	r.Version = version
	r.Sequence++
	return r
}

func TestALeaseThatIsOlderThanTheDataIsRefused(t *testing.T) {
	for name, record := range map[string]Record{
		"it names this very pod": held(1, "b", "c"), "the last holder gave it up": givenUp(1, "", true, "b", "c"),
		"it names another one": func() Record { r := held(1, "a", "c"); r.Holder, r.HolderUID, r.LastHolder = "b", "b-1", "b"; return r }(),
	} {
		t.Run(name, func(t *testing.T) {
			self := Self{Name: "a", UID: "a-1", Generation: generation, Original: true, Whole: true, Timeline: 2}
			a := &instance{T: t, core: New(self, required(1)), now: time.Second}
			a.sees(record).waits()
			a.wants(Idle)
			a.passes(time.Minute).waits()
			if !strings.Contains(a.acts.Want.Why, "The Lease is older than the data of this instance") {
				t.Errorf("it waits because: %s", a.acts.Want.Why)
			}
		})
	}
}

func TestTheLastPrimaryDoesNotContinueWithTheDataOfAReplica(t *testing.T) {
	led := End{Timeline: 1, LSN: 100}
	with := func(r Record, checkpoint, end End) Record {
		r.Checkpoint, r.End = checkpoint, end
		return r
	}
	for name, c := range map[string]struct {
		record  Record
		standby bool
		takes   bool
	}{
		"it led, and has its own data":                                    {with(held(1, "b", "c"), led, End{}), false, true},
		"it led, and has a replica's data":                                {with(held(1, "b", "c"), led, End{}), true, false},
		"it gave the lease up before all ended, and has a replica's data": {with(givenUp(1, "", false, "b", "c"), led, End{}), true, false},
		"the replica's data has everything":                               {with(givenUp(1, "", true, "b", "c"), led, led), true, true},
		"its promotion was interrupted":                                   {with(held(1, "b", "c"), End{}, End{}), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			self := Self{Name: "a", UID: "a-1", Generation: generation, Whole: true, Standby: c.standby, Timeline: 1, Checkpoint: led}
			a := &instance{T: t, core: New(self, required(1)), now: time.Second}
			a.sees(c.record)
			if c.takes {
				a.passes(time.Second).takes()
				return
			}
			a.passes(time.Minute).waits()
			if !strings.Contains(a.acts.Want.Why, "its volume has the data of a replica") {
				t.Errorf("it waits because: %s", a.acts.Want.Why)
			}
		})
	}
}

func TestALeaseThatIsOlderThanAPeersTermIsRefused(t *testing.T) {
	for name, position := range map[string]agentapi.Position{"term": {Term: 4}, "timeline": {Timeline: 3}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
			b.passes(limits.Expire)
			position.Pod = "c"
			b.hearsPosition(position).hears("c", 1, 90).takes()
			b = start(t, "b", required(1)).sees(held(1, "b", "c")).serves(Replica, 1, 100)
			b.passes(limits.Expire)
			b.hearsPosition(position).waits()
		})
	}
}

func TestThePrimaryWritesALeaseAgainThatWasRolledBack(t *testing.T) {
	for name, version := range map[string]string{"a store with earlier versions": "3", "a store with later versions": "30"} {
		t.Run(name, func(t *testing.T) {
			a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
			known := a.renews(2 * limits.Renew)
			a.passes(limits.Renew)
			a.writes(Conflict)
			older := held(2, "b")
			older.Version = version
			a.sees(older).wants(Lead)
			r := a.passes(limits.Retry).takes()
			if r.Version != version || r.Term != known.Term || r.Quorum != 1 || len(r.Members) != 2 {
				t.Errorf("%+v", r)
			}
			a.writes(Written)
			a.wants(Lead)
		})
	}
}

func TestThePrimaryCreatesALeaseThatIsMissing(t *testing.T) {
	for name, outcome := range map[string]Outcome{"the write found none": Unknown, "somebody creates it meanwhile": Conflict} {
		t.Run(name, func(t *testing.T) {
			a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
			known := a.renews(2 * limits.Renew)
			a.passes(limits.Renew)
			a.writes(outcome)
			a.sees(Record{}).wants(Lead)
			r := a.passes(limits.Retry).takes()
			if r.Version != "" || r.Term != known.Term || r.Sequence <= known.Sequence || r.Quorum != 1 || len(r.Members) != 2 {
				t.Errorf("%+v", r)
			}
			a.writes(outcome)
			a.sees(Record{Version: "1"}).wants(Lead) // an empty one
			if r := a.passes(limits.Retry).takes(); r.Version != "1" || r.Term != known.Term {
				t.Errorf("%+v", r)
			}
			a.writes(Written)
			a.wants(Lead)
		})
	}
}

func TestALeaseThatWasCreatedIsWrittenOnWithItsVersion(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
	known := a.renews(2 * limits.Renew)
	a.sees(Record{}).wants(Lead)
	created := a.passes(limits.Renew).takes()
	a.writes(Written)
	again := a.passes(limits.Renew).takes()
	if created.Version != "" || created.Sequence != known.Sequence+1 || again.Version == "" || again.Sequence != created.Sequence+1 {
		t.Errorf("created %+v, then %+v", created, again)
	}
}

func TestWhoHasLostTheLeaseDoesNotCreateIt(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
	a.renews(2 * limits.Renew)
	a.sees(Record{}).passes(limits.Renew)
	a.writes(Unknown)
	a.passes(time.Minute)
	a.serves(Replica, 1, 200).hears("b", 1, 100).hears("c", 1, 100).passes(time.Minute)
	if a.core.Holds() || a.acts.Write != nil || !a.acts.Refresh {
		t.Errorf("%+v", a.acts)
	}
}

func TestTheOthersWaitForAPrimaryToWriteALeaseThatWasRolledBack(t *testing.T) {
	known := sequel(held(1, "b"), "50")
	older := held(1, "b", "c")
	older.Version, older.Term = "60", 2
	c := start(t, "c", required(1)).sees(known).serves(Replica, 1, 100)
	c.sees(older)
	c.passes(limits.Expire).waits()
	c.passes(time.Minute).waits()
	if !strings.Contains(c.acts.Want.Why, "restored") {
		t.Errorf("it waits because: %s", c.acts.Want.Why)
	}
	again := sequel(known, "61")
	c.sees(again).wants(Follow)
	if c.acts.Want.Leader.Name != "a" {
		t.Errorf("%+v", c.acts.Want)
	}
}

func TestALeaseThatWasWrittenAgainCountsThoughItsVersionIsLower(t *testing.T) {
	known := sequel(held(1, "b"), "50")
	b := start(t, "b", required(1)).sees(known).serves(Replica, 1, 100)
	b.passes(limits.Expire - time.Millisecond)
	b.sees(sequel(known, "7"))
	b.passes(limits.Expire - time.Millisecond).waits()
	b.passes(time.Millisecond)
	if r := b.takes(); r.Version != "7" {
		t.Errorf("%+v", r)
	}
}

func TestALastHolderOnAnOlderVolumeDoesNotReturn(t *testing.T) {
	released, running := givenUp(0, "", true), held(1, "b")
	released.End = End{Timeline: 1, LSN: 900}
	running.Checkpoint = End{Timeline: 1, LSN: 800}
	running.HolderUID = "a-0"
	for name, record := range map[string]Record{"after an orderly stop": released, "after a crash": running} {
		t.Run(name, func(t *testing.T) {
			for checkpoint, takes := range map[uint64]bool{700: false, 900: true} {
				self := Self{Name: "a", UID: "a-1", Generation: generation, Whole: true, Timeline: 1, Checkpoint: End{Timeline: 1, LSN: checkpoint}}
				a := &instance{T: t, core: New(self, required(1)), now: time.Second}
				a.sees(record).passes(limits.Expire)
				if a.passes(limits.Expire); (a.write != nil) != takes {
					t.Errorf("with checkpoint %d: %+v", checkpoint, a.acts)
				}
			}
		})
	}
}

func TestALastHolderReturnsThatHasEndedItsServerInOrderItself(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b")).follow("b")
	a.observes(Server{Mode: Primary, Position: agentapi.Position{Timeline: 1, LSN: 100}, Checkpoint: End{Timeline: 1, LSN: 50}})
	a.core.Switchover(agentapi.SwitchoverRequest{Token: "t", To: "b"})
	a.step()
	a.observes(Server{Mode: Down, Position: agentapi.Position{Timeline: 1}, End: 100})
	a.hears("b", 1, 101)
	if r := a.writes(Written); r.Holder != "" || r.End.LSN != 100 {
		t.Fatalf("%+v", r)
	}
	a.passes(limits.Grace) // b doesn't come
	a.takes()
}

func TestAHolderWithoutAWholeCopyDoesNotRenew(t *testing.T) {
	self := Self{Name: "a", UID: "a-1", Generation: generation}
	a := &instance{T: t, core: New(self, required(1)), now: time.Second}
	a.sees(held(1, "b")).waits()
	a.passes(time.Minute).waits()
}

func TestAMemberThatHasLessThanItHadTakesNothing(t *testing.T) {
	record := held(1, "b", "c")
	record.Members[0].Replayed, record.Members[1].Replayed = End{Timeline: 1, LSN: 100}, End{Timeline: 1, LSN: 100}
	b := start(t, "b", required(1)).sees(record).serves(Replica, 1, 99)
	b.passes(limits.Expire).hears("c", 1, 90).waits()
	b = start(t, "b", required(1)).sees(record).serves(Replica, 1, 100)
	b.passes(limits.Expire).hears("c", 1, 99)
	b.waits() // c has lost something, perhaps what only c had
	b.hears("c", 1, 100).takes()
}

// A replica that connects to a new primary first gets the end of its own timeline.
func TestAMemberIsNotSaidToHaveATimelineThatItHasNotReached(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
	a.observes(Server{Mode: Primary, Position: agentapi.Position{Timeline: 2, LSN: 101}, Sync: Sync{Quorum: 1, Members: []string{"b", "c"}}})
	a.core.Follow(a.now, map[string]Follower{
		"b": {Address: "ip-b", Streaming: true, Flushed: 100, Replayed: 100}, "c": {Address: "ip-c", Streaming: true, Flushed: 101, Replayed: 101},
	})
	r := a.renews(2 * limits.Renew)
	if b := r.Members[0].Replayed; b.Timeline > 1 {
		t.Errorf("b is said to have %+v", b)
	}
	if c := r.Members[1].Replayed; c.Timeline != 2 || c.LSN != 101 {
		t.Errorf("c is said to have %+v", c)
	}
}

func TestTheLeaseSaysWhatEveryMemberHadAtLeast(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
	at := func(b uint64) Record {
		a.core.Follow(a.now, map[string]Follower{
			"b": {Address: "ip-b", Streaming: true, Flushed: b, Replayed: b}, "c": {Address: "ip-c", Streaming: true, Flushed: 180, Replayed: 180},
		})
		return a.renews(2 * limits.Renew)
	}
	if r := at(190); r.Members[0].Replayed.LSN != 190 || r.Members[1].Replayed.LSN != 180 || r.Members[0].Replayed.Timeline != 1 {
		t.Errorf("%+v", r.Members)
	}
	r := at(150) // its volume was rolled back
	if r.Members[0].Replayed.LSN != 190 || a.core.replicas.stream("b") {
		t.Errorf("%+v", r.Members)
	}
	if at(191); !a.core.replicas.stream("b") {
		t.Error("it has everything again")
	}
}

// The Lease was deleted, and it was empty for so short a time that this instance didn't see it.
func TestALeaseThatWasCreatedAfterTheOneThatIsKnownIsAnotherElection(t *testing.T) {
	const before, after = "2026-07-01T12:00:00Z", "2026-07-01T12:00:05Z"
	known := held(1, "b", "c")
	known.Version, known.Created, known.Term = "100", before, 14
	for name, c := range map[string]struct {
		created, version string
		timeline         int64
		term             int64
		role             Role
	}{
		"it was created later, and its terms begin again": {after, "110", 1, 1, Follow},
		"it was created later, and a new timeline began":  {after, "110", 2, 1, Follow},
		"it is the same, and its terms went back":         {before, "110", 1, 1, Idle},
		"it was created before":                           {"2026-07-01T11:00:00Z", "110", 1, 1, Idle},
		"it was created later, but its data is older":     {after, "110", 0, 1, Idle},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "b", required(1)).sees(known).serves(Replica, 1, 100)
			b.core.self.Timeline = 1
			r := known
			r.Version, r.Created, r.Term, r.Sequence, r.Members, r.Quorum = c.version, c.created, c.term, 1, nil, 0
			if r.Timeline = c.timeline; c.timeline == 0 {
				r.Timeline, b.core.self.Timeline = 1, 2
			}
			b.sees(r).wants(c.role)
		})
	}
}

func TestThePrimaryWritesALeaseAgainThatAnotherHasBegunAnew(t *testing.T) {
	for name, term := range map[string]int64{"in an earlier term": 1, "in a term of the same number": 4} {
		t.Run(name, func(t *testing.T) { begunAnew(t, term) })
	}
}

func begunAnew(t *testing.T, term int64) {
	t.Helper()
	a := leader(t, required(1), held(1, "b", "c")).follow("b", "c")
	known := a.renews(2 * limits.Renew)
	a.core.lease.record.Created = "2026-07-01T12:00:00Z"
	other := held(1, "b")
	other.Holder, other.HolderUID, other.LastHolder = "b", "b-1", "b"
	other.Version, other.Term, other.Sequence, other.Created = "30", term, 1, "2026-07-01T12:00:05Z"
	a.passes(limits.Renew)
	a.writes(Conflict)
	a.sees(other).wants(Lead)
	r := a.passes(limits.Retry).takes()
	if r.Version != "30" || r.Term != known.Term || r.Holder != "a" || r.Created != other.Created {
		t.Errorf("%+v", r)
	}
}

// Terms of a new Lease can have the numbers of earlier ones.
func TestWhatIsKnownOfATermIsForgottenWithItsLease(t *testing.T) {
	known := held(1, "b", "c")
	known.Created = "2026-07-01T12:00:00Z"
	b := start(t, "b", required(1)).sees(known).serves(Replica, 1, 100)
	b.core.HolderEnded(b.now, known.Term)
	again := known
	again.Version, again.Created = "9", "2026-07-01T12:00:05Z"
	b.sees(again).hears("c", 1, 100).waits()
	b.wants(Follow)
}

func TestATermOfADeletedLeaseThatAPeerHasNamedIsNoTermOfTheNewOne(t *testing.T) {
	const before, now = "2026-07-01T12:00:00Z", "2026-07-01T12:00:05Z"
	for name, c := range map[string]struct {
		position agentapi.Position
		role     Role
	}{
		"a term of the former Lease":              {agentapi.Position{Term: 14, LeaseCreated: before, Timeline: 1}, Follow},
		"a timeline that this one lacks":          {agentapi.Position{Term: 14, LeaseCreated: before, Timeline: 2}, Idle},
		"a term of this Lease":                    {agentapi.Position{Term: 14, LeaseCreated: now, Timeline: 1}, Idle},
		"a term, by an agent of a former version": {agentapi.Position{Term: 14, Timeline: 1}, Idle},
	} {
		t.Run(name, func(t *testing.T) {
			known := held(1, "b", "c")
			known.Created = now
			b := start(t, "b", required(1)).sees(known).serves(Replica, 1, 100)
			c.position.Pod = "c"
			b.hearsPosition(c.position).wants(c.role)
		})
	}
}
