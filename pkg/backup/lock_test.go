package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

const lockDay = 24 * time.Hour

// lockBed is a database whose bucket locks each object for thirty days.
type lockBed struct {
	*database
	bucket *mem.Locked
	now    time.Time
	last   *Manifest
	kept   string
}

// commonInLineage are objects of a lineage that each of its backups needs.
var commonInLineage = []string{"lineage.json", "wal/history/00000002.history"}

func newLockBed(t *testing.T, seed uint64) *lockBed {
	t.Helper()
	b := &lockBed{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	b.bucket = mem.NewLocked(func() time.Time { return b.now }, objstore.LockRule{Mode: objstore.LockCompliance, For: 30 * lockDay})
	must(t, b.bucket.Put(t.Context(), "howdah.json", []byte("{}"), objstore.PutOptions{}))
	must(t, b.bucket.Put(t.Context(), "keys/k1/main", []byte("{}"), objstore.PutOptions{}))
	for _, name := range commonInLineage {
		must(t, b.bucket.Put(t.Context(), "lineages/"+testLineage+"/"+name, []byte("x"), objstore.PutOptions{}))
	}
	b.database = newDatabaseIn(t, b.bucket, seed, false)
	write(t, b.dir, bigRelation, relationPages(1000, 0, 0x2000050, 8), 0o600)
	return b
}

// next backs up after some days and some changes.
func (b *lockBed) next(days float64, parent string) *Manifest {
	b.now = b.now.Add(time.Duration(days * float64(lockDay)))
	for range 4 {
		b.change()
	}
	b.backups++
	b.store = b.bucket
	m, err := Write(context.Background(), b.store, b.source, Options{
		ID: fmt.Sprintf("b%03d", b.backups), Parent: parent, Now: func() time.Time { return b.now },
	})
	must(b, err)
	b.last, b.kept = m, copyOf(b, b.dir)
	return m
}

// survives restores the last backup from what is left at a time by somebody who deletes all that no lock protects.
func (b *lockBed) survives(at time.Time) error {
	b.Helper()
	committed := b.now
	b.now = b.now.Add(time.Hour)
	must(b, b.bucket.Delete(b.Context(), keys(b, b.bucket)...))
	b.now = at
	b.bucket.Rob()
	past := asof.New(b.bucket, committed)
	needed := []string{"howdah.json", "keys/k1/main"}
	for _, name := range commonInLineage {
		needed = append(needed, "lineages/"+testLineage+"/"+name)
	}
	for _, needed := range needed {
		if _, err := past.Get(b.Context(), needed, 1<<10); err != nil {
			return err
		}
	}
	read, err := ReadManifest(b.Context(), past, testLineage, b.last.ID)
	if err != nil {
		return err
	}
	target := filepath.Join(b.TempDir(), "restored")
	if err := Restore(b.Context(), past, read, target, RestoreOptions{}); err != nil {
		return err
	}
	same(b, b.kept, target, "backup_label", "pg_wal", "pg_replslot", "base/5/16400", "base/5/16400_vm")
	if missing, err := objstoreMissing(b.Context(), past, &read.Header); err != nil || missing != "" {
		return fmt.Errorf("WAL %s is missing: %w", missing, err)
	}
	return nil
}

func objstoreMissing(ctx context.Context, store objstore.Store, m *Header) (string, error) {
	segments, err := segmentKeys(m)
	if err != nil {
		return "", err
	}
	for _, key := range segments {
		if _, err := store.Stat(ctx, key); err != nil {
			return key, err
		}
	}
	return "", nil
}

// TestALockCoversTheWholeChain of an incremental backup, for as long as it covers a new object, however old its oldest packs are.
func TestALockCoversTheWholeChain(t *testing.T) {
	leaveOutForRaces(t)
	for _, days := range []float64{0.5, 6, 25} {
		for _, length := range []int{1, 3, 8} {
			t.Run(fmt.Sprintf("%d backups, every %g days", length, days), func(t *testing.T) {
				b, parent := newLockBed(t, uint64(length)), ""
				for range length {
					parent = b.next(days, parent).ID
				}
				promised := b.now.Add(30*lockDay - lockSkew).Truncate(time.Second)
				if got := b.last.Locked; got == nil || got.Until.Before(promised) || length > 1 && b.last.Type != Incremental {
					t.Errorf("it is %s, and locked %+v, want %s", b.last.Type, got, promised)
				}
				if err := b.survives(promised.Add(-time.Second)); err != nil {
					t.Errorf("shortly before %s: %v", promised, err)
				}
			})
		}
	}
}

// TestALockIsExtendedSeldom, though every backup uses the same packs.
func TestALockIsExtendedSeldom(t *testing.T) {
	leaveOutForRaces(t)
	b := newLockBed(t, 1)
	parent := b.next(0, "").ID
	var extended, packs atomic.Int64
	counted := fault.New(b.bucket, fault.Plan{Before: func(call fault.Call) error {
		if call.Op == "lock" {
			extended.Add(1)
			if strings.Contains(call.Key, "/packs/b001/") {
				packs.Add(1)
			}
		}
		return nil
	}})
	for range 60 { // thirty days
		b.now = b.now.Add(12 * time.Hour)
		b.backups++
		m, err := Write(t.Context(), counted, b.source, Options{ID: fmt.Sprintf("b%03d", b.backups), Parent: parent, Now: func() time.Time { return b.now }})
		must(t, err)
		parent = m.ID
	}
	if perPack := int(packs.Load()) / len(packsByBackup(&Header{Lineage: testLineage, Packs: b.last.Packs})[0].keys); perPack < 3 || perPack > 5 {
		t.Errorf("a pack of the first backup was locked anew %d times in thirty days, %d locks in all", perPack, extended.Load())
	}
}

// TestWithoutTheRightToExtendALockThereIsAFullBackupInTime, and none is refused.
func TestWithoutTheRightToExtendALockThereIsAFullBackupInTime(t *testing.T) {
	leaveOutForRaces(t)
	b := newLockBed(t, 2)
	b.bucket.Deny = true
	parent, full, left := b.next(0, "").ID, 0, time.Duration(1<<62)
	for range 20 {
		m := b.next(4, parent)
		parent = m.ID
		if m.Type == Full {
			full++
			if !strings.Contains(m.Why, "s3:PutObjectRetention") {
				t.Errorf("it says %q", m.Why)
			}
		}
		for _, lock := range m.Locked.Packs {
			left = min(left, lock.Until.Sub(b.now))
		}
	}
	if full < 4 || full > 6 || left < 14*lockDay {
		t.Errorf("%d full backups in eighty days; of one all packs are locked for %s", full, left)
	}
	if got := b.last.Locked; !got.Until.Before(b.now) || got.Object == "" {
		t.Errorf("what is not locked is not said: %+v", got)
	}
}

// TestAManifestThatPromisesALockIsNotBelieved where the bucket says otherwise.
func TestAManifestThatPromisesALockIsNotBelieved(t *testing.T) {
	leaveOutForRaces(t)
	b := newLockBed(t, 3)
	b.bucket.Deny = true
	first := b.next(0, "")
	b.now = b.now.Add(10 * lockDay)
	l, err := newLocking(t.Context(), b.bucket, b.now)
	must(t, err)
	for _, claimed := range []time.Time{l.until, l.extended, b.now.AddDate(50, 0, 0)} {
		until, err := l.known(t.Context(), packsByBackup(&first.Header)[0], map[string]time.Time{first.ID: claimed})
		if err != nil || !until.IsZero() {
			t.Errorf("%s is believed: %s, %v", claimed, until, err)
		}
	}
}

// TestLocksForWhichAHeaderHasNoRoomAreLeftOut: the next backup asks the bucket for them, and this one is committed.
func TestLocksForWhichAHeaderHasNoRoomAreLeftOut(t *testing.T) {
	leaveOutForRaces(t)
	b := newLockBed(t, 6)
	m := b.next(0, "")
	m.Cluster.Object = json.RawMessage(`"` + string(randomText(maxRest-10_000)) + `"`)
	for i := range 200 {
		pack := Pack{Backup: fmt.Sprintf("shop-20260304t050607z-%08d", i), Name: "x-000000", Size: 1}
		must(t, b.bucket.Put(t.Context(), layout.PackKey(testLineage, pack.Backup, pack.Name), []byte("x"), objstore.PutOptions{}))
		m.Packs = append(m.Packs, pack)
	}
	l, err := newLocking(t.Context(), b.bucket, b.now)
	must(t, err)
	w := &writing{store: b.bucket, manifest: m, locking: l}
	must(t, w.lock(t.Context()))
	if got := m.Locked; got == nil || got.Until.Before(l.until) || got.Packs != nil {
		t.Errorf("it says %+v", got)
	}
	must(t, checkRest(m.Header, maxRest))
}

// TestAVerificationSaysUntilWhenEverythingIsLocked, and what is locked least.
func TestAVerificationSaysUntilWhenEverythingIsLocked(t *testing.T) {
	leaveOutForRaces(t)
	b := newLockBed(t, 4)
	b.next(0, "")
	b.next(20, b.last.ID)
	look := func() *Locked {
		t.Helper()
		seen, err := VerifyBackup(t.Context(), b.bucket, testLineage, b.last.ID, VerifyOptions{shortWAL: true, Now: func() time.Time { return b.now }})
		must(t, err)
		return seen.Locked
	}
	if got := look(); got == nil || got.Until.Before(b.last.Locked.Until) {
		t.Errorf("got %+v, want %s", got, b.last.Locked.Until)
	}
	b.now = b.now.Add(time.Hour)
	must(t, b.bucket.Put(t.Context(), "keys/k2/main", []byte("{}"), objstore.PutOptions{}))
	plain := mem.New()
	archive := newDatabaseIn(t, plain, 1, false)
	m, _ := archive.backup("")
	seen, err := VerifyBackup(t.Context(), plain, testLineage, m.ID, VerifyOptions{shortWAL: true})
	if err != nil || seen.Locked != nil || m.Locked != nil {
		t.Errorf("a bucket without locks: %+v, %+v, %v", seen.Locked, m.Locked, err)
	}
}

// TestABucketThatDoesNotAnswerForItsLocksEndsABackup, one that may not be asked does not.
func TestABucketThatDoesNotAnswerForItsLocksEndsABackup(t *testing.T) {
	leaveOutForRaces(t)
	for kind, fails := range map[error]bool{objstore.ErrUnavailable: true, objstore.ErrDenied: false} {
		b := newLockBed(t, 5)
		store := fault.New(b.bucket, fault.Plan{Before: func(call fault.Call) error {
			if call.Op == "lock rule" {
				return &objstore.Error{Op: call.Op, Kind: kind}
			}
			return nil
		}})
		m, err := Write(t.Context(), store, b.source, Options{ID: "b1"})
		if fails != errors.Is(err, kind) || !fails && m.Locked != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
