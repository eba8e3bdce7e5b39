package elect

import (
	"testing"
	"time"
)

func TestAnEmptyLeaseIsTakenByTheInstanceWithTheOriginal(t *testing.T) {
	a := start(t, "a", required(1)).sees(Record{Version: "1"})
	r := a.takes()
	if r.Holder != "a" || r.HolderUID != "a-1" || r.Term != 1 || r.Generation != generation || len(r.Members) > 0 || r.Quorum > 0 {
		t.Errorf("%+v", r)
	}
	b := start(t, "b", required(1)).sees(Record{Version: "1"})
	b.waits()
	b.wants(Idle)
}

func TestALeaseOfAnotherDataGenerationIsTakenByTheOriginalOnceItIsFree(t *testing.T) {
	old := held(1, "b")
	old.Generation = "g0"
	a := start(t, "a", required(1)).sees(old)
	a.core.self.UID = "a-2"
	a.passes(limits.Expire - time.Millisecond).waits()
	if r := a.passes(time.Millisecond).takes(); r.Term != 4 || r.Generation != generation || r.Quorum > 0 || len(r.Members) > 0 {
		t.Errorf("%+v", r)
	}
	b := start(t, "b", required(1)).sees(old).serves(Replica, 1, 100)
	b.passes(time.Minute).waits()
}

func TestALeaseThatWasCreatedAgainIsNotTakenByAnOriginalThatHasFollowed(t *testing.T) {
	led := held(1, "a")
	led.Holder, led.LastHolder, led.HolderUID = "b", "b", "b-1"
	a := start(t, "a", required(1)).sees(led).serves(Replica, 2, 100)
	a.sees(Record{Version: "9"}).waits()
	a.passes(time.Minute).waits()
}

// told is a configuration that says who begins.
func told(name string) Config {
	config := required(1)
	config.Begins = name
	return config
}

func TestTheInstanceThatIsNamedBeginsAndTheOriginalDoesNot(t *testing.T) {
	old := held(1, "b")
	old.Generation = "g0"
	for name, record := range map[string]Record{"another generation": old, "an empty Lease": {Version: "1"}} {
		t.Run(name, func(t *testing.T) {
			a := start(t, "a", told("b")).sees(record)
			a.passes(time.Minute).waits()
			b := start(t, "b", told("b"))
			if r := b.sees(record).passes(limits.Expire).takes(); r.Holder != "b" || r.Generation != generation {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTheInstanceThatIsNamedBeginsNothingWithoutAWholeCopy(t *testing.T) {
	b := start(t, "b", told("b"))
	b.core.self.Whole = false
	b.sees(Record{Version: "1"})
	b.passes(time.Minute).waits()
}

func TestALeaseThatWasCreatedAgainIsTakenOnlyByWhomIsNamedThen(t *testing.T) {
	led := held(1, "a")
	led.Holder, led.LastHolder, led.HolderUID = "b", "b", "b-1"
	a := start(t, "a", told("a"))
	a.sees(led).serves(Replica, 2, 100)
	a.sees(Record{Version: "9"}).waits()
	a.core.Configure(told("b"))
	a.passes(time.Minute).waits()
	a.core.Configure(told("a"))
	if r := a.passes(time.Second).takes(); r.Holder != "a" {
		t.Errorf("%+v", r)
	}
}

func TestAHolderWritesALeaseThatWasCreatedAgainAsItWas(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	a.sees(Record{Version: "99"}).wants(Lead)
	if r := a.passes(limits.Renew).takes(); r.Version != "99" || r.Term != 4 || r.Quorum != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAHolderWritesALeaseThatSomebodyDamagedAsItWas(t *testing.T) {
	a := leader(t, required(1), held(1, "b"))
	term := a.core.Record().Term
	a.sees(Record{Version: "99", Holder: "a", Term: term, Damaged: "It can't be parsed."}).wants(Lead)
	if r := a.passes(limits.Renew).takes(); r.Version != "99" || r.Term != term || r.Quorum != 1 || r.Damaged != "" {
		t.Errorf("%+v", r)
	}
	a.sees(Record{Version: "100", Holder: "b", Term: term + 1, Damaged: "It can't be parsed."})
	if a.core.Holds() {
		t.Error("it continues though the Lease names another one")
	}
}

func TestNobodyTakesALeaseThatIsDamaged(t *testing.T) {
	for name, record := range map[string]Record{
		"held":     {Version: "5", Holder: "a", Term: 3, Damaged: "It can't be parsed."},
		"given up": {Version: "5", Term: 3, Damaged: "It can't be parsed."},
		"new":      {Version: "5", Damaged: "It can't be parsed."},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "b", required(1)).sees(record).serves(Replica, 1, 100)
			b.passes(2 * limits.Expire).waits()
			if b.acts.Want.Why != record.Damaged {
				t.Errorf("it says %q", b.acts.Want.Why)
			}
		})
	}
}
