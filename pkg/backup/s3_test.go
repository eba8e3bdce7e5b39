//go:build s3

package backup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// bucket is a prefix of its own on the S3 server that the environment names.
func bucket(t testing.TB, driver string) objstore.Store {
	t.Helper()
	store, err := open.Open(t.Context(), storetest.Server(t, driver))
	must(t, err)
	t.Cleanup(func() { must(t, store.Delete(context.Background(), keys(t, store)...)) })
	return store
}

func TestABackupInARealBucketRestoresAndIsRemovedWhole(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			store, dir := bucket(t, driver), pgdata(t)
			manifest := mustWrite(t, store, dir, "b1")
			target := filepath.Join(t.TempDir(), "restored")
			must(t, roundTrip(t.Context(), store, target))
			same(t, dir, target, "backup_label")
			entries, err := List(t.Context(), store, "")
			must(t, err)
			if len(entries) != 1 || entries[0].Err != nil || entries[0].Header.Totals != manifest.Totals {
				t.Errorf("the catalogue says %+v", entries)
			}
			freed, err := Delete(t.Context(), store, testLineage, "b1")
			must(t, err)
			if freed != manifest.Totals.StoredBytes || contains(keys(t, store), "/b1/") {
				t.Errorf("freed %d of %d, left %v", freed, manifest.Totals.StoredBytes, keys(t, store))
			}
		})
	}
}

func TestABackupOutlastsAServerThatIsAway(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			dir := pgdata(t)
			away := fault.New(bucket(t, driver), fault.Plan{Before: func(c fault.Call) error {
				if c.Number%3 != 0 {
					return &objstore.Error{Op: c.Op, Kind: objstore.ErrUnavailable}
				}
				return nil
			}})
			store := retry.New(away, retry.Policy{FirstPause: time.Millisecond})
			mustWrite(t, store, dir, "b1")
			must(t, roundTrip(t.Context(), store, filepath.Join(t.TempDir(), "restored")))
		})
	}
}

func TestAFlippedByteInARealBucketIsFound(t *testing.T) {
	store, dir := bucket(t, objstore.DriverAWS), pgdata(t)
	mustWrite(t, store, dir, "b1")
	for _, key := range keys(t, store) {
		if !strings.Contains(key, "/b1/") {
			continue
		}
		whole, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		whole[rand.IntN(len(whole))] ^= 0x10
		must(t, store.Put(t.Context(), key, whole, objstore.PutOptions{}))
		target := filepath.Join(t.TempDir(), "restored")
		err = roundTrip(t.Context(), store, target)
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %v", key, err)
		}
		if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
			t.Error("something half done is left")
		}
	}
}

// BenchmarkS3 measures against a real server; HOWDAH_BENCH_PGDATA names the data.
func BenchmarkS3(b *testing.B) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		dir, size := benchData(b)
		store := bucket(b, driver)
		src := source(b, store, dir)
		n := 0
		b.Run(driver+"/write", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				n++
				_, err := Write(b.Context(), store, src, Options{ID: fmt.Sprintf("b%d", n)})
				must(b, err)
			}
		})
		b.Run(driver+"/restore", func(b *testing.B) {
			b.SetBytes(size)
			manifest, err := ReadManifest(b.Context(), store, testLineage, fmt.Sprintf("b%d", n))
			must(b, err)
			for b.Loop() {
				target := filepath.Join(b.TempDir(), "restored")
				must(b, Restore(b.Context(), store, manifest, target, RestoreOptions{}))
				b.StopTimer()
				must(b, os.RemoveAll(target))
				b.StartTimer()
			}
		})
	}
}
