package agentapi

import (
	"testing"
	"time"
)

func TestWhatIsRenewedInTimeDoesNotEndSoon(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		hours, left int
		soon        bool
	}{
		"a day, with ten hours left":   {24, 10, false},
		"a day, with four hours left":  {24, 4, true},
		"90 days, with 20 days left":   {90 * 24, 20 * 24, false},
		"90 days, with 13 days left":   {90 * 24, 13 * 24, true},
		"a CA, with three months left": {10 * 365 * 24, 90 * 24, false},
		"a CA, with a week left":       {10 * 365 * 24, 7 * 24, true},
		"what has ended":               {24, -1, true},
	} {
		until := now.Add(time.Duration(c.left) * time.Hour)
		if got := (Validity{From: until.Add(-time.Duration(c.hours) * time.Hour), Until: until}).EndsSoon(now); got != c.soon {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (Validity{}).EndsSoon(now) || !(Validity{Until: now.Add(time.Hour)}).EndsSoon(now) {
		t.Error("what isn't known is judged, or what is isn't")
	}
}
