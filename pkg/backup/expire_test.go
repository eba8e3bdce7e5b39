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

// TestBackupHistoriesGoWithTheWALThatTheyAreOf: PostgreSQL archives one for each backup, so they would be more and more.
func TestBackupHistoriesGoWithTheWALThatTheyAreOf(t *testing.T) {
	store, ctx := mem.New(), t.Context()
	archive := wal.New(store)
	claim := layout.Lineage{Lineage: testLineage, SegmentSize: postgres.DefaultSegSize, Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}}
	if _, err := layout.Claim(ctx, store, claim); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"000000010000000000000001.00000028.backup", "000000010000000000000004.00000028.backup", "00000002.history",
		"000000020000000000000002.00000028.backup", "000000020000000000000003.00000028.backup",
	} {
		if err := archive.Put(ctx, testLineage, name, []byte("x"), wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := ExpireWAL(ctx, store, testLineage, 3)
	var left []string
	for info, err := range store.List(ctx, layout.HistoryPrefix(testLineage), "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, path.Base(info.Key))
	}
	const want = "000000010000000000000004.00000028.backup 00000002.history 000000020000000000000003.00000028.backup"
	if got := strings.Join(left, " "); err != nil || removed.Objects != 2 || got != want {
		t.Errorf("%s are left, %+v, %v", got, removed, err)
	}
}
