package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// TestAnEndlessLineageIsRefusedBeforeItTakesMemory: a bucket says that there are millions of backups, histories, or gaps in the WAL.
func TestAnEndlessLineageIsRefusedBeforeItTakesMemory(t *testing.T) {
	const lineage = "7-g1"
	for name, key := range map[string]func(int) string{
		"backups":   func(number int) string { return layout.ManifestKey(lineage, fmt.Sprintf("b%08d", number)) },
		"histories": func(number int) string { return fmt.Sprintf("%s%08X.history", layout.HistoryPrefix(lineage), number+2) },
		"gaps in the WAL": func(number int) string {
			return fmt.Sprintf("%s%08X%08X%08X", layout.TimelinePrefix(lineage, 1), 1, number/128, 2*(number%128))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := mem.New()
			claim := layout.Lineage{Lineage: lineage, Writer: layout.Writer{UID: "u"}, SystemIdentifier: "7", Generation: "g1", SegmentSize: 16 << 20, Created: time.Unix(1, 0)}
			if _, err := layout.Claim(t.Context(), inner, claim); err != nil {
				t.Fatal(err)
			}
			store := &storetest.Endless{Store: inner, Prefix: layout.LineagePrefix(lineage), Key: key, Most: 2_000_000}
			var err error
			held := storetest.Held(func() { _, err = NewReader().Read(t.Context(), store) })
			if err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("got %v", err)
			}
			if held > 64<<20 || store.Asked > 1_000_000 {
				t.Errorf("%d entries were listed, and %d MiB held", store.Asked, held>>20)
			}
		})
	}
}
