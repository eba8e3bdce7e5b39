package elect

import (
	"testing"
	"time"
)

const isolation = 20 * time.Second

func isolating() Config { return with(asynchronous(), Failover{Isolation: isolation}) }

// abandoned is a primary whose replicas are gone from the lease, and which reaches the API server no more.
func abandoned(t *testing.T, config Config) *instance {
	t.Helper()
	a := leader(t, config, held(0, "b"))
	a.follow("b").renews(time.Second)
	a.follow()
	for end := a.now + 2*limits.Away; a.now < end; a.follow() {
		a.renews(time.Second)
	}
	if len(a.core.Record().Members) > 0 {
		t.Fatalf("there are members: %+v", a.core.Record())
	}
	return a
}

func (i *instance) passesAlone(d time.Duration, each func()) {
	for end := i.now + d; i.now < end; i.passes(200 * time.Millisecond) {
		if i.write != nil {
			i.writes(Unknown)
		}
		each()
	}
}

func TestAPrimaryWithoutMembersThatReachesNobodyIsFenced(t *testing.T) {
	a := abandoned(t, isolating())
	a.passesAlone(isolation-2*limits.Renew, func() {})
	a.wants(Lead)
	if until := a.acts.Want.Until; until > a.now+isolation {
		t.Errorf("the watchdog lets it continue for %s", until-a.now)
	}
	asks := len(a.acts.Ask)
	a.passesAlone(2*limits.Renew, func() { asks += len(a.acts.Ask) })
	if asks == 0 {
		t.Error("it has not asked the instance that it knows")
	}
	if a.core.Holds() {
		t.Fatal("it continues")
	}
	a.wants(Stop)
	a.passes(time.Second)
	a.serves(Down, 1, 100)
	a.passes(limits.Retry)
	a.sees(*a.core.Record()) // the API server is back
	a.passes(limits.Retry)
	a.writes(Written)
	a.wants(Lead)
}

func TestAPrimaryWithoutMembersGoesOnWhileItReachesAnybody(t *testing.T) {
	for name, reach := range map[string]func(a *instance){
		"another instance answers": func(a *instance) {
			if len(a.acts.Ask) > 0 {
				a.hears("b", 1, 50)
			}
		},
		"a replica streams that lags too far to be a member": func(a *instance) {
			a.core.Follow(a.now, map[string]Follower{"c": {Address: "ip-c", Streaming: true, Lag: 1000}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := abandoned(t, isolating())
			a.passesAlone(5*isolation, func() { reach(a) })
			a.wants(Lead)
		})
	}
	t.Run("the API server answers", func(t *testing.T) {
		a := abandoned(t, isolating())
		a.renews(5 * isolation)
		a.wants(Lead)
	})
}

func TestAPrimaryWithoutMembersIsFencedOnlyIfSomebodyWantsThat(t *testing.T) {
	a := abandoned(t, asynchronous())
	a.passesAlone(time.Hour, func() {})
	a.wants(Lead)
	alone := start(t, "a", with(Config{Alone: true, Peers: peers(1)}, Failover{Isolation: isolation}))
	alone.sees(Record{Version: "1"}).serves(Primary, 1, 100)
	alone.passes(time.Hour)
	alone.wants(Lead)
	if alone.acts.Want.Until != Forever {
		t.Error("a single instance is fenced")
	}
}
