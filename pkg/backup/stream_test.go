package backup

import (
	"errors"
	"fmt"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/heaptest"
)

// packsOfHistory is how many packs each manifest of a history points at: all of them at the same.
const packsOfHistory = 1000

// history is a store with this many backups that share their packs, as the incremental ones of a quiet database do.
func history(t *testing.T, backups int) objstore.Store {
	t.Helper()
	store := mem.New()
	_, err := layout.Claim(t.Context(), store, layout.Lineage{
		Lineage: testLineage, Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, SegmentSize: testSeg, Created: testStart,
	})
	must(t, err)
	for i := range backups {
		m := fullManifest(fmt.Sprintf("b%04d", i))
		for n := range packsOfHistory {
			m.Packs = append(m.Packs, Pack{Backup: "b0000", Name: fmt.Sprintf("shared-%06d", n), Size: 1 << 20})
		}
		object, err := encodeManifest(m)
		must(t, err)
		must(t, store.Put(t.Context(), layout.ManifestKey(testLineage, m.ID), object, objstore.PutOptions{}))
	}
	return store
}

// TestMemoryIsFlatWhateverTheHistory holds every header once, one after the other.
func TestMemoryIsFlatWhateverTheHistory(t *testing.T) {
	leaveOutForRaces(t)
	short, long := history(t, 20), history(t, 100)
	for name, do := range map[string]func(objstore.Store) error{
		"deletion":      func(s objstore.Store) error { _, err := Delete(t.Context(), s, testLineage, "b0001"); return err },
		"expiry of WAL": func(s objstore.Store) error { _, err := ExpireWAL(t.Context(), s, testLineage, 1); return err },
		"orphaned packs": func(s objstore.Store) error {
			_, _, err := SweepOrphans(t.Context(), s, testLineage, testStart)
			return err
		},
	} {
		ofShort := heaptest.Peak(short, func(s objstore.Store) { must(t, do(s)) })
		ofLong := heaptest.Peak(long, func(s objstore.Store) { must(t, do(s)) })
		t.Logf("%s: %d KiB with 20 backups, %d KiB with 100", name, ofShort>>10, ofLong>>10)
		if ofLong > ofShort+1<<20 {
			t.Errorf("%s keeps %d KiB with 20 backups, and %d KiB with 100", name, ofShort>>10, ofLong>>10)
		}
	}
}

func TestTheHeaderOfAnotherBackupIsNotTaken(t *testing.T) {
	store := history(t, 2)
	object, err := store.Get(t.Context(), layout.ManifestKey(testLineage, "b0000"), maxManifest)
	must(t, err)
	must(t, store.Put(t.Context(), layout.ManifestKey(testLineage, "b0001"), object, objstore.PutOptions{}))
	if _, err := ReadHeader(t.Context(), store, testLineage, "b0001"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
	entries, err := List(t.Context(), store, testLineage)
	if err != nil || len(entries) != 2 || entries[0].Err != nil || !errors.Is(entries[1].Err, ErrCorrupt) {
		t.Errorf("%+v, %v", entries, err)
	}
}
