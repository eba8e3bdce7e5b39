package space

import (
	"testing"
	"time"
)

func TestWhenAVolumeWillBeFullIsEstimatedByItsRate(t *testing.T) {
	start, total := time.Unix(1000, 0).UTC(), 100*gib
	usage := func(used int64) Usage { return Usage{Total: total, Free: total - used} }
	for name, test := range map[string]struct {
		perMinute int64
		minutes   int
		want      time.Duration // from the last look; 0: not soon
	}{
		"it stays as it is":     {0, 20, 0},
		"it empties":            {-gib / 10, 20, 0},
		"it was looked at once": {gib, 0, 0},
		"a gigabyte a minute":   {gib, 20, 29 * time.Minute},
		"a megabyte a minute":   {mib, 20, 0},
		"a tenth of that      ": {gib / 10, 20, 469 * time.Minute},
	} {
		f, used := Filling{}, 50*gib
		for minute := range test.minutes + 1 {
			used = 50*gib + int64(minute)*test.perMinute
			f.Add(usage(used), start.Add(time.Duration(minute)*time.Minute))
		}
		got := f.FullAt(usage(used))
		if got.IsZero() != (test.want == 0) {
			t.Errorf("%s: %s", name, got)
			continue
		}
		left := got.Sub(start.Add(time.Duration(test.minutes) * time.Minute))
		if test.want > 0 && (left < test.want-2*time.Minute || left > test.want+2*time.Minute) {
			t.Errorf("%s: in %s", name, left)
		}
		if len(f.samples) > 12 {
			t.Errorf("%s: %d samples are kept", name, len(f.samples))
		}
	}
}
