package elect

import (
	"slices"
	"testing"
	"time"
)

func TestAReplicaThatStreamsBecomesAMember(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	same(t, "members", a.follow("c").takes().Members, "c")
}

func TestAReplicaThatIsFarBehindBecomesNone(t *testing.T) {
	a := leader(t, asynchronous(), held(0))
	a.core.Follow(a.now, map[string]Follower{"b": {Address: "ip-b", Streaming: true, Lag: 101}})
	same(t, "members", a.renews(10*time.Second).Members)
}

func TestAMemberThatIsAwayIsDropped(t *testing.T) {
	a := leader(t, asynchronous(), held(0, "b", "c"))
	a.follow("b", "c")
	for range 8 {
		a.follow("b")
		a.renews(time.Second)
	}
	same(t, "members", a.core.Record().Members, "b")
}

func TestAMemberThatCannotBeLookedAtStaysOne(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		quorum int
	}{
		{"asynchronous", asynchronous(), 0},
		{"preferred", preferred(1), 1},
		{"required", required(1), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := leader(t, test.config, held(test.quorum, "b", "c"))
			a.follow("b", "c")
			for range 600 { // nobody can look
				same(t, "members", a.renews(100*time.Millisecond).Members, "b", "c")
			}
			a.follow("b")
			same(t, "members when c was missed first", a.renews(limits.Away).Members, "b", "c")
			for range 8 {
				a.follow("b")
				a.renews(time.Second)
			}
			if test.quorum > 0 { // the last step waits for PostgreSQL
				a.serves(Primary, 1, 100)
				a.renews(limits.Renew)
			}
			same(t, "members when c was missed for long", a.core.Record().Members, "b")
		})
	}
}

func TestWithAQuorumTheLeaseGrowsBeforePostgreSQL(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.follow("b", "c")
	same(t, "members", a.takes().Members, "b", "c")
	if sync := a.acts.Want.Sync; !slices.Equal(sync.Members, []string{"b"}) {
		t.Errorf("PostgreSQL was first: %v", sync)
	}
	a.writes(Written)
	if sync := a.acts.Want.Sync; !slices.Equal(sync.Members, []string{"b", "c"}) || sync.Quorum != 1 {
		t.Errorf("%v", sync)
	}
}

// shrinking is a holder whose member c is away, and whose PostgreSQL waits for b alone since position 200.
func shrinking(t *testing.T, flushed uint64) *instance {
	a := leader(t, preferred(1), held(1, "b", "c"))
	a.follow("b", "c")
	for range 6 {
		a.follow("b")
		a.renews(time.Second)
	}
	same(t, "members", a.core.Record().Members, "b", "c")
	if sync := a.acts.Want.Sync; !slices.Equal(sync.Members, []string{"b"}) {
		t.Fatalf("PostgreSQL is not asked first: %v", sync)
	}
	a.core.Follow(a.now, map[string]Follower{"b": {Address: "ip-b", Streaming: true, Flushed: flushed}})
	a.observes(Server{Mode: Primary, SyncSince: 200})
	return a
}

func TestWithAQuorumPostgreSQLShrinksBeforeTheLease(t *testing.T) {
	a := shrinking(t, 199)
	a.core.server.SyncSince = 200
	same(t, "members", a.renews(limits.Renew).Members, "b", "c")
	a.core.Follow(a.now, map[string]Follower{"b": {Address: "ip-b", Streaming: true, Flushed: 200}})
	same(t, "members", a.renews(limits.Renew).Members, "b")
}

func TestRequiredKeepsWhoIsAwayAndPreferredDoesNot(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		want   []string
		quorum int
	}{
		{"required", required(1), []string{"b"}, 1},
		{"preferred", preferred(1), nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := leader(t, test.config, held(1, "b"))
			a.follow("b")
			for range 10 {
				a.follow()
				a.renews(time.Second)
			}
			same(t, "members", a.core.Record().Members, test.want...)
			if a.core.Record().Quorum != test.quorum || a.acts.Want.Sync.Quorum != test.quorum {
				t.Errorf("%+v %+v", a.core.Record(), a.acts.Want)
			}
		})
	}
}

func TestPreferredLowersTheLeaseBeforePostgreSQL(t *testing.T) {
	a := leader(t, preferred(2), held(2, "b", "c"))
	a.follow("b", "c")
	for range 4 {
		a.follow("b")
		a.renews(time.Second)
	}
	a.passes(time.Second).follow("b")
	if r := a.takes(); r.Quorum != 1 || len(r.Members) != 2 || a.acts.Want.Sync.Quorum != 2 {
		t.Errorf("%+v %+v", r, a.acts.Want)
	}
	a.writes(Written)
	if a.acts.Want.Sync.Quorum != 1 {
		t.Errorf("%+v", a.acts.Want)
	}
}

func TestRequiredWaitsFromTheBeginningAndNobodyTakesOverBeforeItHasEverything(t *testing.T) {
	a := leader(t, required(2), Record{Version: "1"})
	if sync := a.acts.Want.Sync; sync.Quorum != 2 || !slices.Equal(sync.Members, []string{"b", "c"}) {
		t.Errorf("commits don't wait: %+v", sync)
	}
	a.core.server.SyncSince = 500
	a.core.Follow(a.now, map[string]Follower{
		"b": {Address: "ip-b", Streaming: true, Flushed: 500}, "c": {Address: "ip-c", Streaming: true, Flushed: 499},
	})
	same(t, "members", a.renews(10*time.Second).Members)
	a.core.Follow(a.now, map[string]Follower{
		"b": {Address: "ip-b", Streaming: true, Flushed: 500}, "c": {Address: "ip-c", Streaming: true, Flushed: 500},
	})
	r := a.renews(limits.Renew)
	same(t, "members", r.Members, "b", "c")
	if r.Quorum != 2 {
		t.Errorf("%+v", r)
	}
}

func TestInDoubtNothingChanges(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.follow("b", "c")
	a.writes(Unknown)
	a.core.SawLease(a.now, *a.core.Record())
	a.passes(limits.Retry)
	same(t, "members", a.takes().Members, "b")
	if sync := a.acts.Want.Sync; !slices.Equal(sync.Members, []string{"b"}) {
		t.Errorf("%v", sync)
	}
}

func TestWhileAWriteIsOnItsWayPostgreSQLIsNotChanged(t *testing.T) {
	a := leader(t, preferred(1), held(0))
	a.follow("b").serves(Primary, 1, 100)
	if r := a.takes(); r.Quorum != 1 {
		t.Fatalf("%+v", r)
	}
	a.follow() // b is away, and nobody knows yet whether b may take over
	if sync := a.acts.Want.Sync; sync.Quorum != 1 {
		t.Errorf("commits don't wait any more: %+v", sync)
	}
}

func TestAQuorumDoesNotCountBeforeItIsKnownSinceWhenItHolds(t *testing.T) {
	a := leader(t, required(1), held(0))
	a.core.Follow(a.now, map[string]Follower{"b": {Address: "ip-b", Streaming: true, Flushed: 99, Lag: 1}})
	a.core.Observe(a.now, Server{Mode: Primary, Sync: a.acts.Want.Sync}) // it was started with it
	a.passes(0)
	same(t, "members", a.renews(limits.Renew).Members)
	a.core.Observe(a.now, Server{Mode: Primary, Sync: a.acts.Want.Sync, SyncSince: 100})
	same(t, "members", a.renews(limits.Renew).Members)
	a.core.Follow(a.now, map[string]Follower{"b": {Address: "ip-b", Streaming: true, Flushed: 100}})
	same(t, "members", a.renews(limits.Renew).Members, "b")
}
