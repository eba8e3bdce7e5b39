package way

import (
	"testing"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

func TestAnOpenSegmentCountsOnlyAtTheEndOfTheWay(t *testing.T) {
	segment := func(n uint64) postgres.Segment {
		return postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.DefaultSegSize}
	}
	coverage := wal.Coverage{SegmentSize: postgres.DefaultSegSize, Timelines: []wal.Timeline{{ID: 1, First: segment(3), Last: segment(5), Open: true}}}
	for name, test := range map[string]struct {
		first uint64
		end   bool
		last  uint64
		there bool
	}{
		"at the end":               {3, true, 5, true},
		"the only one, at the end": {5, true, 5, true},
		"on the way":               {3, false, 4, true},
		"the only one, on the way": {5, false, 4, false},
	} {
		last, there := unbroken(coverage, segment(test.first), test.end)
		if last != segment(test.last) || there != test.there {
			t.Errorf("%s: %v, %v", name, last, there)
		}
	}
}
