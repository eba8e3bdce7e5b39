package pruning

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
)

func TestTheWindowInStatusIsNoLargerThanWhatCanBeRestored(t *testing.T) {
	const half = time.Second / 2
	for name, test := range map[string]struct{ from, to, wantFrom, wantTo time.Duration }{
		"whole seconds":           {0, time.Minute, 0, time.Minute},
		"parts of seconds":        {half, time.Minute + half, time.Second, time.Minute},
		"less than a second":      {half / 2, half, 0, 0},
		"no second is within it":  {half, time.Second + half/2, time.Second, time.Second},
		"the end of a backup":     {half, half, 0, 0},
		"from within to a second": {half, time.Second, time.Second, time.Second},
	} {
		l := &inventory.Lineage{Window: inventory.Window{From: now.Add(test.from), To: now.Add(test.to)}}
		s := describeLineage(l, ownership.Living, nil)
		if !s.RecoverableFrom.Time.Equal(now.Add(test.wantFrom)) || !s.RecoverableTo.Time.Equal(now.Add(test.wantTo)) {
			t.Errorf("%s: %s to %s", name, s.RecoverableFrom, s.RecoverableTo)
		}
	}
	if s := describeLineage(&inventory.Lineage{}, ownership.Living, nil); s.RecoverableFrom != nil || s.RecoverableTo != nil {
		t.Errorf("nothing: %+v", s)
	}
}
