//go:build s3

package backup

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio/lockedbucket"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// TestAnIncrementalBackupLocksTheWholeChainInARealBucket, which then doesn't let go what it needs.
func TestAnIncrementalBackupLocksTheWholeChainInARealBucket(t *testing.T) {
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		t.Run(driver, func(t *testing.T) {
			config := storetest.Server(t, driver)
			config.Bucket = fmt.Sprintf("locked-%x", rand.Uint32())
			raw, made := lockedbucket.Make(t, config)
			if !made {
				t.Skip("the server has no object lock")
			}
			store, err := open.Open(t.Context(), config)
			must(t, err)
			d := newDatabaseIn(t, store, 1, false)
			write(t, d.dir, bigRelation, relationPages(1000, 0, 0x2000050, 8), 0o600)
			must(t, store.Put(t.Context(), "keys/k1/main", []byte("{}"), objstore.PutOptions{}))
			began := time.Now()
			full, err := Write(t.Context(), store, d.source, Options{ID: "b1"})
			must(t, err)
			later := func() time.Time { return began.Add(20 * time.Hour) } // the lock of the full one has four hours left
			d.set(bigRelation, 10)
			m, err := Write(t.Context(), store, d.source, Options{ID: "b2", Parent: full.ID, Now: later})
			must(t, err)
			want := later().Add(24*time.Hour - lockSkew - time.Second)
			if m.Type != Incremental || m.Locked == nil || m.Locked.Until.Before(full.Locked.Until) {
				t.Fatalf("it is %s (%s), locked %+v", m.Type, m.Why, m.Locked)
			}
			oldest := packsByBackup(&m.Header)
			for _, key := range append(oldest[len(oldest)-1].keys, "keys/k1/main", "lineages/"+testLineage+"/wal/00000001/"+m.WAL.First) {
				lock, err := store.Locks().LockOf(t.Context(), key)
				if err != nil || lock.Until.Before(want) || lock.Mode != objstore.LockGovernance {
					t.Errorf("%s is locked %+v, want %s, %v", key, lock, want, err)
				}
				if err := raw.RemoveVersions(t, config.Key(key)); err == nil {
					t.Errorf("the bucket lets %s go", key)
				}
				if err := store.Locks().Lock(t.Context(), key, objstore.Lock{Mode: lock.Mode, Until: began.Add(time.Hour)}); err == nil {
					t.Errorf("the lock of %s gets shorter", key)
				}
			}
			seen, err := VerifyBackup(t.Context(), store, testLineage, "b2", VerifyOptions{shortWAL: true})
			if err != nil || seen.Locked == nil || seen.Locked.Until.Before(began.Add(23*time.Hour)) {
				t.Errorf("a verification says %+v, %v", seen.Locked, err)
			}
		})
	}
}
