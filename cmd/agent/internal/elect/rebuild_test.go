package elect

import (
	"strings"
	"testing"
)

func TestADegradedPeriodEndsForGoodOnceTheQuorumWasThere(t *testing.T) {
	config := Config{Peers: peers(3), Number: 2, Required: true, Degrade: true}
	for name, c := range map[string]struct {
		record   Record
		change   func(*Config)
		degraded bool
	}{
		"no replica was built yet":                {Record{}, nil, true},
		"one of two was built":                    {Record{Quorum: 1}, nil, true},
		"both are there":                          {Record{Quorum: 2}, nil, false},
		"both were there":                         {Record{Quorum: 1, Full: true}, nil, false},
		"both were there, and none is":            {Record{Full: true}, nil, false},
		"they were there before more were wanted": {Record{Quorum: 1, Full: true}, func(c *Config) { c.Number = 2 }, false},
		"commits are to wait":                     {Record{}, func(c *Config) { c.Degrade = false }, false},
		"commits never wait":                      {Record{}, func(c *Config) { c.Required = false }, false},
		"there is one instance":                   {Record{}, func(c *Config) { c.Peers = peers(1) }, false},
		"there are fewer instances than that":     {Record{Quorum: 1}, func(c *Config) { c.Peers = peers(2) }, false},
	} {
		now := config
		if c.change != nil {
			c.change(&now)
		}
		if got := now.degraded(&c.record); got != c.degraded {
			t.Errorf("%s: degraded is %t", name, got)
		}
		if now.required(&c.record) != (now.Required && !c.degraded) {
			t.Errorf("%s: required is %t", name, !now.Required || c.degraded)
		}
	}
}

// rebuilding is a world of a primary whose replicas are built for the first time.
func rebuilding(m mistake) *universe {
	return newUniverse(exploration{instances: 3, number: 2, required: true, degrade: true, commits: 9, ticks: 9, mistake: m, begin: unbuilt})
}

func TestCommitsDoNotWaitForReplicasThatAreYetToBeBuilt(t *testing.T) {
	u := rebuilding(none)
	a := u.places[0]
	if a.mode != Primary || a.sync.Quorum != 0 || !Degraded(a.core) || u.lease.Full {
		t.Fatalf("it waits for %+v, the Lease is %+v", a.sync, u.lease)
	}
	if u.commit(a, nil); len(u.acked) != 1 {
		t.Error("a commit waits before there is a replica")
	}
	u.places[2].cut = true
	u.calm(3)
	if a.sync.Quorum != 1 || !Degraded(a.core) || u.lease.Full {
		t.Errorf("with one replica: it waits for %+v, the Lease is %+v", a.sync, u.lease)
	}
	u.places[2].cut = false
	u.calm(3)
	if a.sync.Quorum != 2 || Degraded(a.core) || !u.lease.Full {
		t.Fatalf("with both: it waits for %+v, the Lease is %+v", a.sync, u.lease)
	}
	u.places[1].cut, u.places[2].cut = true, true
	u.calm(5)
	if acked := len(u.acked); a.sync.Quorum != 2 {
		t.Errorf("once both were there, and are away: it waits for %+v", a.sync)
	} else if u.commit(a, nil); len(u.acked) > acked {
		t.Error("a commit doesn't wait although both replicas were there once")
	}
	if u.wrong != "" {
		t.Error(u.wrong)
	}
}

// An agent of a version that doesn't know of Full drops it from the Lease, but keeps the quorum.
func TestAnOlderAgentDoesNotBringADegradedPeriodBack(t *testing.T) {
	u := rebuilding(none)
	u.calm(4)
	if !u.lease.Full {
		t.Fatalf("%+v", u.lease)
	}
	u.lease.Full = false
	u.version++
	u.lease.Version = "99"
	u.places[1].cut, u.places[2].cut = true, true
	u.calm(4)
	if a := u.places[0]; Degraded(a.core) || a.sync.Quorum != 2 {
		t.Errorf("it waits for %+v, the Lease is %+v", a.sync, u.lease)
	}
}

func TestTheSuccessorOfAPrimaryKnowsThatTheReplicasWereBuilt(t *testing.T) {
	u := rebuilding(none)
	u.calm(4)
	a := u.places[0]
	a.mode, a.gone, a.leaving = Down, true, false
	u.calm(12)
	if u.lease.Holder == "a" || !u.lease.Full || u.lease.Quorum != 2 {
		t.Errorf("%+v", u.lease)
	}
	for _, p := range u.places {
		if Degraded(p.core) || p.mode == Primary && p.sync.Quorum != 2 {
			t.Errorf("%s waits for %+v", p.name, p.sync)
		}
	}
}

func TestTheExplorerFindsADegradedPeriodThatComesBack(t *testing.T) {
	_, _, wrong := look(exploration{
		instances: 3, number: 1, required: true, degrade: true, faults: []string{"crash", "cut"}, ticks: 4, commits: 1, most: 2, mistake: degradesAgain}, 300_000)
	if !strings.Contains(wrong, "there were 1 of them once") {
		t.Errorf("nothing is wrong: %s", wrong)
	}
	t.Log(wrong)
}
