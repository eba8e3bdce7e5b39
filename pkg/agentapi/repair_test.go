package agentapi

import (
	"testing"
	"time"
)

func TestRepairsArePausedBetweenTwoTimesOnly(t *testing.T) {
	from := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	pause := &Repair{PausedFrom: from, PausedUntil: from.Add(time.Hour)}
	for name, c := range map[string]struct {
		repair *Repair
		at     time.Duration
		want   bool
	}{
		"nothing is said":     {nil, 0, false},
		"no time is said":     {&Repair{KeepCopies: true}, 0, false},
		"before it":           {pause, -time.Second, false},
		"when it begins":      {pause, 0, true},
		"just before its end": {pause, time.Hour - time.Second, true},
		"at its end":          {pause, time.Hour, false},
	} {
		if got := c.repair.Paused(from.Add(c.at)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
