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
	"howdah.dev/howdah/pkg/objstore/mem"
)

// roundTrip reads a manifest and restores it.
func roundTrip(ctx context.Context, store objstore.Store, target string) error {
	manifest, err := ReadManifest(ctx, store, testLineage, "b1")
	if err != nil {
		return err
	}
	return Restore(ctx, store, manifest, target, RestoreOptions{})
}

func TestOneFlippedBitAnywhereIsFoundAndNamed(t *testing.T) {
	leaveOutForRaces(t)
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	for _, key := range keys(t, store) {
		if !strings.Contains(key, "/packs/") && !strings.Contains(key, "/backups/") {
			continue
		}
		whole, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		places := []int{0, 4, 9, 14, 15, 16, 17, 20, 30, len(whole) - 1}
		for range 30 {
			places = append(places, random.IntN(len(whole)))
		}
		for _, at := range places {
			flipAndRestore(t, store, key, whole, at, byte(1)<<random.IntN(8))
		}
		must(t, store.Put(t.Context(), key, whole, objstore.PutOptions{}))
	}
	must(t, roundTrip(t.Context(), store, t.TempDir()))
}

func flipAndRestore(t *testing.T, store objstore.Store, key string, whole []byte, at int, mask byte) {
	t.Helper()
	broken := append([]byte(nil), whole...)
	broken[at] ^= mask
	must(t, store.Put(t.Context(), key, broken, objstore.PutOptions{}))
	target := filepath.Join(t.TempDir(), "target")
	err := roundTrip(t.Context(), store, target)
	// A flipped version is an unknown one, all else is corrupt.
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
		t.Fatalf("byte %d of %s flipped by %02x: %v", at, key, mask, err)
	}
	if !strings.Contains(err.Error(), key) {
		t.Errorf("byte %d of %s: the error doesn't name the object: %v", at, key, err)
	}
	var corrupt *CorruptError
	if strings.Contains(key, "/packs/") && (!errors.As(err, &corrupt) || corrupt.File == "") {
		t.Errorf("byte %d of %s: the error names no file: %v", at, key, err)
	}
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("byte %d of %s: something half done is left", at, key)
	}
}

func TestAMissingOrShortenedObjectIsFoundAndNamed(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	for _, key := range keys(t, store) {
		if !strings.Contains(key, "/packs/") {
			continue
		}
		whole, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		must(t, store.Delete(t.Context(), key))
		err = roundTrip(t.Context(), store, filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("missing: %v", err)
		}
		must(t, store.Put(t.Context(), key, whole[:len(whole)-1], objstore.PutOptions{}))
		err = roundTrip(t.Context(), store, filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("shortened: %v", err)
		}
		must(t, store.Put(t.Context(), key, whole, objstore.PutOptions{}))
	}
}

func TestPacksThatChangedPlacesAreFound(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	mustWrite(t, store, dir, "b2")
	var first, second string
	for _, key := range keys(t, store) {
		if strings.Contains(key, "/packs/b1/") {
			first = key
		}
		if strings.Contains(key, "/packs/b2/") {
			second = key
		}
	}
	other, err := store.Get(t.Context(), second, 1<<30)
	must(t, err)
	must(t, store.Put(t.Context(), first, other, objstore.PutOptions{}))
	if err := roundTrip(t.Context(), store, filepath.Join(t.TempDir(), "x")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

var errCrash = errors.New("crash")

// crashing makes every call from one on fail: the process is gone. Whether the call itself was done
// is the other question.
func crashing(store objstore.Store, from int, done bool) *fault.Store {
	return fault.New(store, fault.Plan{
		Before: func(c fault.Call) error {
			if c.Number > from || (c.Number == from && !done) {
				return errCrash
			}
			return nil
		},
		After: func(c fault.Call) error {
			if c.Number == from && done {
				return errCrash
			}
			return nil
		},
	})
}

func TestABackupThatCrashesAtAnyCallIsFinishedByTheNextRun(t *testing.T) {
	leaveOutForRaces(t)
	dir := pgdata(t)
	for _, done := range []bool{false, true} {
		for from, finished := 1, false; !finished; from++ {
			t.Run(fmt.Sprintf("call %d, done %v", from, done), func(t *testing.T) {
				store := mem.New()
				src := source(t, store, dir)
				opts := Options{ID: "b1", MemoryLimit: 1, Workers: 1}
				broken := crashing(store, from, done)
				_, err := Write(t.Context(), broken, src, opts)
				finished = broken.Calls() < from
				if !finished && err != nil && !errors.Is(err, errCrash) {
					t.Errorf("the crash shows as %v", err)
				}
				manifest, err := Write(t.Context(), store, src, opts)
				must(t, err)
				if err := onlyUsed(t, store, manifest); err != nil {
					t.Error(err)
				}
				must(t, roundTrip(t.Context(), store, t.TempDir()))
			})
		}
	}
}

// packPaths are the packs of headers, as they appear in a bucket below packs/.
type packPaths map[string]bool

func (p packPaths) addAll(header *Header) {
	for _, pack := range header.Packs {
		p[pack.Backup+"/"+pack.Name] = true
	}
}

// onlyUsed checks that the bucket holds no pack that the manifest doesn't name.
func onlyUsed(t *testing.T, store objstore.Store, manifest *Manifest) error {
	used := packPaths{}
	used.addAll(&manifest.Header)
	for _, key := range keys(t, store) {
		if _, name, ok := strings.Cut(key, "/packs/"); ok && !used[name] {
			return fmt.Errorf("%s is an orphan", key)
		}
	}
	return nil
}

func TestADeleteThatCrashesAtAnyCallIsFinishedByTheNext(t *testing.T) {
	leaveOutForRaces(t)
	dir := pgdata(t)
	for _, done := range []bool{false, true} {
		for from, finished := 1, false; !finished; from++ {
			store := mem.New()
			mustWrite(t, store, dir, "b1")
			mustWrite(t, store, dir, "b2")
			broken := crashing(store, from, done)
			_, _ = Delete(t.Context(), broken, testLineage, "b1")
			finished = broken.Calls() < from
			_, err := Delete(t.Context(), store, testLineage, "b1")
			must(t, err)
			left := keys(t, store)
			if contains(left, "/b1/") || !contains(left, "backups/b2/") || !contains(left, "packs/b2/") {
				t.Errorf("crash at call %d: left %v", from, left)
			}
		}
	}
}

func TestPacksThatAnotherManifestPointsAtOutliveTheirBackup(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	first := mustWrite(t, store, dir, "b1")
	second := *first
	second.ID, second.Type, second.Parent = "b2", Incremental, "b1"
	object, err := encodeManifest(&second)
	must(t, err)
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b2/manifest.zst", object, objstore.PutOptions{}))

	_, err = Delete(t.Context(), store, testLineage, "b1")
	must(t, err)
	manifest, err := ReadManifest(t.Context(), store, testLineage, "b2")
	must(t, err)
	must(t, Restore(t.Context(), store, manifest, t.TempDir(), RestoreOptions{}))

	_, err = Delete(t.Context(), store, testLineage, "b2")
	must(t, err)
	if left := keys(t, store); contains(left, "/packs/") {
		t.Errorf("left %v", left)
	}
}

func TestNothingIsRemovedWhileAManifestCanNotBeRead(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b2/manifest.zst", []byte("garbage"), objstore.PutOptions{}))
	if _, err := Delete(t.Context(), store, testLineage, "b1"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if left := keys(t, store); !contains(left, "/packs/b1/") || !contains(left, "/backups/b1/") {
		t.Errorf("packs that the broken manifest may point at are gone, or the manifest of a backup that was not deleted: %v", left)
	}
	if _, err := Delete(t.Context(), store, testLineage, "b2"); err != nil {
		t.Errorf("the broken one itself: %v", err)
	}
}

func TestSweepingLeavesYoungPacksAndCommittedBackupsAlone(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "done")
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/packs/gone/x-000000", []byte("x"), objstore.PutOptions{}))
	for want, age := range []time.Duration{time.Hour, -time.Hour} {
		before := time.Now().Add(-age)
		swept, freed, err := SweepOrphans(t.Context(), store, testLineage, before)
		must(t, err)
		left := keys(t, store)
		if len(swept) != want || int(freed) != want || contains(left, "packs/gone/") != (want == 0) || !contains(left, "packs/done/") {
			t.Errorf("before %s: swept %v (%d bytes), left %v", before, swept, freed, left)
		}
	}
}

func TestOfTwoRunsOneCommitsAndTheOtherReturnsItsManifest(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	src := source(t, store, dir)
	other := (*Manifest)(nil)
	slow := src
	slow.Stop = func(ctx context.Context) (Stopped, error) {
		winner, err := Write(ctx, store, src, Options{ID: "b1"})
		other = winner
		return Stopped{LSN: 0x3000100, BackupLabel: testLabel}, errors.Join(err)
	}
	got, err := Write(t.Context(), store, slow, Options{ID: "b1"})
	must(t, err)
	if got.Packs[0] != other.Packs[0] {
		t.Error("the slower run returned a manifest that isn't the committed one")
	}
	must(t, onlyUsed(t, store, got))
	must(t, roundTrip(t.Context(), store, t.TempDir()))
}

func TestTheCatalogueShowsWholeAndBrokenBackups(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b2/manifest.zst", []byte("garbage"), objstore.PutOptions{}))
	must(t, store.Put(t.Context(), "lineages/other-g1/lineage.json", []byte("{}"), objstore.PutOptions{}))
	entries, err := List(t.Context(), store, "")
	must(t, err)
	if len(entries) != 2 || entries[0].Err != nil || entries[0].Header.ID != "b1" || !errors.Is(entries[1].Err, ErrCorrupt) {
		t.Errorf("got %+v", entries)
	}
	if entries[0].ManifestSize == 0 || entries[0].Committed.IsZero() {
		t.Errorf("got %+v", entries[0])
	}
}
