package pgbouncer

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestAProcessThatWasFrozenIsToldForHowLongOnce(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := &wakes{}
	slept := func(after, want time.Duration) {
		t.Helper()
		if got := w.slept(start.Add(after)); got != want {
			t.Errorf("after %v, it slept for %v", after, got)
		}
	}
	slept(0, 0)
	w.note(start.Add(frozenTime))
	slept(2*frozenTime, 0)
	w.note(start.Add(time.Hour)) // it wakes up by itself
	slept(time.Hour+wakeTime, time.Hour-2*frozenTime)
	slept(time.Hour+2*wakeTime, 0)
	slept(2*time.Hour, time.Hour-2*wakeTime) // it is asked before it has
}

// Otherwise a pooler that thaws would send clients to its last server at once, and PgBouncer would tell them that it isn't there.
func TestAPauseThatAPoolerSleptThroughContinues(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := &mind{}
	if got := m.heard(agentapi.PoolerAnswer{Serving: true, DataGeneration: "g", Term: 1}, start); got != serve {
		t.Fatal(got)
	}
	if got := m.lost(start); got != hold {
		t.Fatal(got)
	}
	m.slept(time.Hour)
	for after, want := range map[time.Duration]act{time.Hour: nothing, time.Hour + pauseLimit - 1: nothing} {
		if got := m.tick(start.Add(after)); got != want {
			t.Errorf("%v after it began, a pause gives %d", after, got)
		}
	}
	if got := m.tick(start.Add(time.Hour + pauseLimit)); got != release {
		t.Errorf("a pause doesn't end: %d", got)
	}
}
