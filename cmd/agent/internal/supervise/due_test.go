package supervise

import (
	"testing"
	"time"
)

// Of a primary that writes 300 MiB a second, a replica that has everything until a second ago lags by nothing, and one that received
// nothing for ten seconds by what it should have.
func TestWALOfTheLastSecondsIsNoLag(t *testing.T) {
	const perSecond = 300 << 20
	began, d := time.Unix(0, 0), &due{}
	primary := func(second int) uint64 { return uint64(second) * perSecond }
	for second := range 20 {
		should := d.note(began.Add(time.Duration(second)*time.Second), primary(second))
		want := primary(second) // nothing is known of two seconds ago
		if second >= 2 {
			want = primary(second - 2)
		}
		if should != want {
			t.Fatalf("after %d s replicas should have %d, want %d", second, should, want)
		}
	}
	should := d.note(began.Add(20*time.Second), primary(20))
	for name, c := range map[string]struct{ has, lag uint64 }{
		"level with the primary": {primary(20), 0},
		"a second late":          {primary(19), 0},
		"ten seconds late":       {primary(10), 8 * perSecond},
	} {
		if lag := lacks(c.has, should); lag != c.lag {
			t.Errorf("%s: lags by %d, want %d", name, lag, c.lag)
		}
	}
	if len(d.past) > 3 {
		t.Errorf("%d positions are kept", len(d.past))
	}
}

func TestAPrimaryThatWritesNothingLeavesNoWALThatIsNotDue(t *testing.T) {
	began, d := time.Unix(0, 0), &due{}
	for second := range 5 {
		d.note(began.Add(time.Duration(second)*time.Second), 100)
	}
	if should := d.note(began.Add(5*time.Second), 100); should != 100 {
		t.Errorf("replicas should have %d", should)
	}
}

func TestAnotherTimelineBeginsAnew(t *testing.T) {
	began, d := time.Unix(0, 0), &due{}
	d.note(began, 500)
	d.note(began.Add(time.Second), 600)
	for second, lsn := range []uint64{550, 560, 570} {
		want := lsn
		if second == 2 {
			want = 550
		}
		if should := d.note(began.Add(time.Duration(3+second)*time.Second), lsn); should != want {
			t.Errorf("replicas should have %d, want %d", should, want)
		}
	}
}
