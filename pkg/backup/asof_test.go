package backup

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// Whoever deletes or overwrites everything in a bucket with versions leaves what was there before, which is listed, verified and restored as
// if nothing had happened since.
func TestABackupThatWasDeletedOrOverwrittenIsRestoredAsOfATime(t *testing.T) {
	now := testStart
	store, dir := mem.NewVersioned(func() time.Time { return now }), pgdata(t)
	mustWrite(t, store, dir, "b1")
	intact := now
	now = now.Add(time.Hour)
	for i, key := range keys(t, store) {
		if i%2 == 0 {
			must(t, store.Delete(t.Context(), key))
		} else {
			must(t, store.Put(t.Context(), key, []byte("pay for the key"), objstore.PutOptions{}))
		}
	}
	if err := roundTrip(t.Context(), store, t.TempDir()); err == nil {
		t.Fatal("nothing is wrong with it now")
	}
	past := asof.New(store, intact)
	entries, err := List(t.Context(), past, "")
	if err != nil || len(entries) != 1 || entries[0].Err != nil || entries[0].ID != "b1" {
		t.Fatalf("listed are %+v, %v", entries, err)
	}
	_, err = Committed(t.Context(), past, testLineage, "b1")
	must(t, err)
	_, err = VerifyBackup(t.Context(), past, testLineage, "b1", VerifyOptions{shortWAL: true})
	must(t, err)
	target := filepath.Join(t.TempDir(), "restored")
	must(t, roundTrip(t.Context(), past, target))
	same(t, dir, target, "backup_label")
	if _, err := Delete(t.Context(), past, testLineage, "b1"); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("deleting from the past: %v", err)
	}
	if err := past.Put(t.Context(), layout.ManifestKey(testLineage, "b2"), nil, objstore.PutOptions{}); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("writing to the past: %v", err)
	}
}
