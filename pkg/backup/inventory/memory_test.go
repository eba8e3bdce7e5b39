package inventory

import (
	"encoding/json"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/test/testkit/heaptest"
	"howdah.dev/howdah/test/testkit/subset"
)

// Retention looks at all backups, of which each may have a large header.
func TestAnInventoryHoldsOneHeaderAtATime(t *testing.T) {
	subset.OneIn(t, 3)
	peak := func(backups uint64) int64 {
		b := newBucket(t)
		object, err := json.Marshal(map[string]string{"large": strings.Repeat("x", 128<<10)})
		b.must(err)
		b.archive(1, 1, backups)
		for number := range backups {
			b.backUpOf(1, number+1, object)
		}
		return heaptest.Peak(b.Store, func(s objstore.Store) {
			lineages, err := NewReader().Read(t.Context(), s)
			b.must(err)
			if len(lineages) != 1 || len(lineages[0].Backups) != int(backups) {
				t.Errorf("%d lineages", len(lineages))
			}
		})
	}
	short, long := peak(20), peak(80)
	t.Logf("%d KiB with 20 backups, %d KiB with 80", short>>10, long>>10)
	if long > short+1<<20 {
		t.Errorf("it keeps %d KiB with 20 backups, and %d KiB with 80", short>>10, long>>10)
	}
}
