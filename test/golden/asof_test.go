package golden

import (
	"maps"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// TestARepositoryThatWasDeletedIsRestoredAsItWas from the versions that the bucket keeps, by all that reads repositories.
func TestARepositoryThatWasDeletedIsRestoredAsItWas(t *testing.T) {
	for _, way := range Ways {
		t.Run(way, func(t *testing.T) {
			wrap := func(store objstore.Store) objstore.Store {
				t.Helper()
				wrapped, err := Wrap(store, way)
				if err != nil {
					t.Fatal(err)
				}
				return wrapped
			}
			now := begin
			bucket := mem.NewVersioned(func() time.Time { return now })
			want := map[string]string{}
			if err := fill(t.Context(), wrap(bucket), want); err != nil {
				t.Fatal(err)
			}
			now = begin.Add(time.Hour)
			for info, err := range bucket.List(t.Context(), "", "") {
				if err != nil {
					t.Fatal(err)
				}
				spoil(t, bucket, info.Key)
			}
			now = begin.Add(2 * time.Hour)
			lineages, err := inventory.NewReader().Read(t.Context(), wrap(bucket))
			for _, l := range lineages {
				if l.Unreadable == "" || len(l.Backups) > 0 {
					t.Errorf("the bucket is readable as it is: %+v", l)
				}
			}
			if err == nil && len(lineages) == 0 && way != Plain {
				t.Error("the bucket counts as empty")
			}
			restoreAll(t, wrap(asof.New(bucket, begin.Add(time.Minute))), want)
		})
	}
}

// spoil does what whoever holds a bucket to ransom does.
func spoil(t *testing.T, bucket objstore.Store, key string) {
	t.Helper()
	err := bucket.Put(t.Context(), key, []byte("pay"), objstore.PutOptions{})
	if err == nil && len(key)%2 == 0 {
		err = bucket.Delete(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func restoreAll(t *testing.T, store objstore.Store, want map[string]string) {
	t.Helper()
	lineages, err := inventory.NewReader().Read(t.Context(), store)
	if err != nil || len(lineages) != 1 || len(lineages[0].Backups) != 2 || lineages[0].Window.Missing != "" {
		t.Fatalf("%+v, %v", lineages, err)
	}
	got := map[string]string{}
	for _, b := range lineages[0].Backups {
		m, err := backup.ReadManifest(t.Context(), store, Lineage, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		if verified, err := backup.Verify(t.Context(), store, m, backup.VerifyOptions{}); err != nil || !verified.Whole {
			t.Errorf("%s: %+v, %v", b.ID, verified, err)
		}
		dir := filepath.Join(t.TempDir(), b.ID)
		if err := backup.Restore(t.Context(), store, m, dir, backup.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := Sums(dir, b.ID, got); err != nil {
			t.Fatal(err)
		}
		delete(got, b.ID+" backup_label")
	}
	if !maps.Equal(got, want) {
		t.Errorf("restored\n%v\nwant\n%v", got, want)
	}
	if _, _, err := wal.New(store).Get(t.Context(), Lineage, Segment(Last).Name()); err != nil {
		t.Errorf("the last segment: %v", err)
	}
}
