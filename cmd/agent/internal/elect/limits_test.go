package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

var profiles = []string{agentapi.ProfileFast, agentapi.ProfileDefault, agentapi.ProfilePatient}

func profiled(profile string) Config {
	config := asynchronous()
	config.Limits = LimitsOf(profile)
	return config
}

// fenceTime is what a server gets to end once it was told to.
const fenceTime = 300 * time.Millisecond

func TestTheLimitsOfEveryProfileAreInOrder(t *testing.T) {
	for _, profile := range profiles {
		l := LimitsOf(profile)
		dead := (l.Kill + fenceTime).Seconds()
		if clocks := (l.Expire.Seconds() - dead) / (l.Expire.Seconds() + dead); clocks < 0.05 {
			t.Errorf("%s: clocks may be wrong by %.1f %% only", profile, 100*clocks)
		}
		if l.Renew >= l.Failsafe || l.Failsafe+2*l.Retry > l.Fence || l.Kill != l.Fence+Margin {
			t.Errorf("%s: %+v", profile, l)
		}
		if slowest := l.Renew + 2*time.Second; slowest >= l.Fence { // a request may take two seconds
			t.Errorf("%s: with a slow API server the last renewal is %s old, and the server is fenced after %s", profile, slowest, l.Fence)
		}
	}
	if LimitsOf("") != DefaultLimits() || LimitsOf("Leisurely") != DefaultLimits() {
		t.Error("an agent that isn't told a profile that it knows doesn't go by the default limits")
	}
}

func TestAHolderTakesMoreTimeOnlyOnceTheLeaseSaysSo(t *testing.T) {
	short, long := LimitsOf(agentapi.ProfileDefault), LimitsOf(agentapi.ProfilePatient)
	a := leader(t, profiled(agentapi.ProfileDefault), held(0, "b", "c"))
	a.follow("b", "c")
	a.core.Configure(profiled(agentapi.ProfilePatient))
	a.step()
	if said := a.takes().Duration; said != long.Expire {
		t.Fatalf("the Lease says that it is kept for %s", said)
	}
	sent := a.now
	a.writes(Unknown)
	if until := a.acts.Want.Until; until > sent+short.Fence {
		t.Errorf("PostgreSQL is fenced after %s, and the Lease may still say %s", until-sent, short.Expire)
	}
	a.sees(*a.core.Record())
	a.passes(a.core.limits.Retry)
	sent = a.now
	a.writes(Written)
	if until := a.acts.Want.Until; until != sent+long.Fence {
		t.Errorf("PostgreSQL is fenced after %s, once the Lease says %s", until-sent, long.Expire)
	}
}

func TestAHolderGivesOthersLessTimeOnlyOnceItTakesNoMore(t *testing.T) {
	short, long := LimitsOf(agentapi.ProfileFast), LimitsOf(agentapi.ProfilePatient)
	a := leader(t, profiled(agentapi.ProfilePatient), held(0, "b", "c"))
	a.follow("b", "c")
	a.passes(7 * time.Second) // longer than it may be without a renewal from now on
	a.core.Configure(profiled(agentapi.ProfileFast))
	a.step()
	a.wants(Lead)
	if said := a.takes().Duration; said != long.Expire {
		t.Fatalf("the Lease says %s, and the holder may continue for longer", said)
	}
	sent := a.now
	a.writes(Written)
	a.wants(Lead)
	if until := a.acts.Want.Until; until != sent+short.Fence {
		t.Errorf("PostgreSQL is fenced after %s", until-sent)
	}
	a.passes(short.Renew)
	if said := a.takes().Duration; said != short.Expire {
		t.Errorf("the Lease says %s", said)
	}
}

func TestAClaimThatIsOnItsWayCountsWithTheLimitsThatItSays(t *testing.T) {
	b := start(t, "b", profiled(agentapi.ProfileFast))
	b.serves(Replica, 1, 100)
	b.sees(givenUp(0, "b", true, "b", "c"))
	sent := b.now
	if b.takes().Duration != LimitsOf(agentapi.ProfileFast).Expire {
		t.Fatalf("it claims %+v", b.takes())
	}
	b.core.Configure(profiled(agentapi.ProfilePatient))
	b.passes(100 * time.Millisecond)
	b.writes(Written)
	if until := b.acts.Want.Until; until != sent+LimitsOf(agentapi.ProfileFast).Fence {
		t.Errorf("PostgreSQL is fenced after %s", until-sent)
	}
}

func TestWhoIsFastWaitsForAHolderThatIsPatient(t *testing.T) {
	for name, c := range map[string]struct{ said, waits time.Duration }{
		"it says for how long":              {27 * time.Second, 27 * time.Second},
		"it doesn't say, so it is an agent": {0, DefaultLimits().Expire},
	} {
		record := held(0, "b", "c")
		record.Duration = c.said
		b := start(t, "b", profiled(agentapi.ProfileFast))
		b.serves(Replica, 1, 100)
		b.sees(record)
		began := b.now
		for b.write == nil && b.now < began+time.Minute {
			b.passes(100 * time.Millisecond)
		}
		if waited := b.now - began; waited < c.waits {
			t.Errorf("%s: it takes the lease after %s", name, waited)
		}
		if failsafe := (agentapi.FailsafeRequest{Leader: "a", Generation: generation, Term: 3}); !start(t, "b", profiled(agentapi.ProfileFast)).sees(record).core.AskedFailsafe(time.Second, failsafe).Follows {
			t.Error("it doesn't follow")
		}
	}
}
