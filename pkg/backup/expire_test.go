package backup

import (
	"io"
	"path"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// TestPiecesThatWereLeftGoWithTheSegmentThatTheyAreOf: the agent removes those of a segment that it has archived, unless it is
// killed before.
func TestPiecesThatWereLeftGoWithTheSegmentThatTheyAreOf(t *testing.T) {
	store, ctx := mem.New(), t.Context()
	archive := wal.New(store)
	claim := layout.Lineage{Lineage: testLineage, SegmentSize: postgres.DefaultSegSize, Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}}
	if _, err := layout.Claim(ctx, store, claim); err != nil {
		t.Fatal(err)
	}
	for number := uint64(1); number <= 4; number++ {
		segment := postgres.Segment{Timeline: 1, Number: number, SegSize: postgres.DefaultSegSize}
		err := archive.PutOpen(ctx, testLineage, segment, 0, 1, wal.Info{}, func(w io.Writer) error {
			_, err := w.Write([]byte("x"))
			return err
		})
		if err == nil && number < 4 {
			err = archive.Put(ctx, testLineage, segment.Name(), []byte("x"), wal.Info{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	removed, err := ExpireWAL(ctx, store, testLineage, 3)
	if err != nil || removed.Objects != 4 {
		t.Errorf("%+v, %v", removed, err)
	}
	for info, err := range store.List(ctx, layout.WALPrefix(testLineage), "") {
		if name := path.Base(info.Key); err != nil || !strings.HasPrefix(name, "000000010000000000000003") && !strings.HasPrefix(name, "000000010000000000000004.open.") {
			t.Errorf("%s is left, %v", name, err)
		}
	}
}
