package backup

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// realWAL puts segments of full length into the archive instead of the ones that source writes.
func realWAL(t *testing.T, store objstore.Store) {
	t.Helper()
	for number := uint64(2); number <= 3; number++ {
		name := postgres.Segment{Timeline: 1, Number: number, SegSize: testSeg}.Name()
		key, err := wal.Key(testLineage, name)
		must(t, err)
		must(t, store.Delete(t.Context(), key))
		must(t, wal.New(store).Put(t.Context(), testLineage, name, append(randomBytes(64<<10, number), make([]byte, testSeg-64<<10)...), wal.Info{Writer: "test"}))
	}
}

func TestASegmentOfAnotherSizeIsWrong(t *testing.T) {
	store := mem.New()
	mustWrite(t, store, pgdata(t), "b1")
	realWAL(t, store)
	name := postgres.Segment{Timeline: 1, Number: 2, SegSize: testSeg}.Name()
	key, err := wal.Key(testLineage, name)
	must(t, err)
	for _, size := range []uint64{1, testSeg / 2, 2 * testSeg} {
		must(t, store.Delete(t.Context(), key))
		must(t, wal.New(store).Put(t.Context(), testLineage, name, make([]byte, size), wal.Info{Writer: "test"}))
		verified, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{})
		if !errors.Is(err, ErrCorrupt) || verified.WrongObjects != 1 || !strings.Contains(verified.Wrong[0].Detail, "a segment has 16777216") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func objectsOf(t *testing.T, store objstore.Store, kind string) []string {
	t.Helper()
	var found []string
	for _, key := range keys(t, store) {
		if strings.Contains(key, kind) {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		t.Fatalf("there is no object with %s", kind)
	}
	return found
}

func TestAWholeBackupIsVerified(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	manifest := mustWrite(t, store, dir, "b1")
	realWAL(t, store)
	seen, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{})
	must(t, err)
	if !seen.Whole || seen.WrongObjects != 0 || seen.Objects != 1+len(manifest.Packs)+2 || seen.StoredBytes < manifest.Totals.StoredBytes*9/10 {
		t.Errorf("seen %+v", seen)
	}
}

// harms are what can happen to an object in a bucket.
var harms = map[string]func(t *testing.T, store objstore.Store, key string){
	"flipped": func(t *testing.T, store objstore.Store, key string) {
		body, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		body[len(body)/2] ^= 4
		must(t, store.Put(t.Context(), key, body, objstore.PutOptions{}))
	},
	"truncated": func(t *testing.T, store objstore.Store, key string) {
		body, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		must(t, store.Put(t.Context(), key, body[:len(body)-1], objstore.PutOptions{}))
	},
	"emptied": func(t *testing.T, store objstore.Store, key string) {
		must(t, store.Put(t.Context(), key, nil, objstore.PutOptions{}))
	},
	"missing": func(t *testing.T, store objstore.Store, key string) {
		must(t, store.Delete(t.Context(), key))
	},
}

func TestAnyWrongObjectIsFoundAndNamed(t *testing.T) {
	leaveOutForRaces(t)
	dir := pgdata(t)
	for harm, do := range harms {
		for _, kind := range []string{"/manifest.zst", "/packs/", "/wal/"} {
			t.Run(harm+" "+kind, func(t *testing.T) {
				store := mem.New()
				mustWrite(t, store, dir, "b1")
				realWAL(t, store)
				key := objectsOf(t, store, kind)[0]
				do(t, store, key)
				seen, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{})
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), key) {
					t.Errorf("got %v, want %s to be named", err, key)
				}
				if seen.WrongObjects != 1 || seen.Wrong[0].Object != key || seen.Wrong[0].Detail == "" {
					t.Errorf("seen %+v", seen)
				}
				if missing := harm == "missing" && kind == "/wal/"; errors.Is(err, ErrWALMissing) != missing {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func TestEveryWrongObjectIsNamedAndNotOnlyTheFirst(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1", MemoryLimit: 1, Workers: 1})
	must(t, err)
	realWAL(t, store)
	var harmed []string
	for _, kind := range []string{"/packs/", "/wal/"} {
		for _, key := range objectsOf(t, store, kind) {
			harms["flipped"](t, store, key)
			harmed = append(harmed, key)
		}
	}
	seen, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{})
	if !errors.Is(err, ErrCorrupt) || seen.WrongObjects != len(harmed) || !seen.Whole {
		t.Fatalf("seen %+v, %v", seen, err)
	}
	for i, key := range harmed {
		if seen.Wrong[i].Object != key {
			t.Errorf("%d is %s, want %s", i, seen.Wrong[i].Object, key)
		}
	}
}

func TestBytesThatWereLostOnTheWayAreReadAgain(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	realWAL(t, store)
	once := map[string]bool{}
	var mu sync.Mutex
	noisy := fault.New(store, fault.Plan{Garble: func(call fault.Call, _ int64, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		if len(body) > 0 && !once[call.Key] {
			once[call.Key] = true
			body[len(body)-1] ^= 1
		}
	}})
	seen, err := VerifyBackup(t.Context(), noisy, testLineage, "b1", VerifyOptions{})
	if err != nil || seen.WrongObjects != 0 {
		t.Errorf("seen %+v, %v", seen, err)
	}
	if len(once) < 4 {
		t.Errorf("only %d objects were garbled", len(once))
	}
}

func TestAStoreThatDoesNotAnswerSaysNothingOfTheBackup(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	realWAL(t, store)
	away := &objstore.Error{Op: "read", Kind: objstore.ErrUnavailable}
	for from := 1; ; from++ {
		broken := fault.New(store, fault.Plan{Before: func(call fault.Call) error {
			if call.Number >= from {
				return away
			}
			return nil
		}})
		seen, err := VerifyBackup(t.Context(), broken, testLineage, "b1", VerifyOptions{Workers: 1})
		if broken.Calls() < from {
			must(t, err)
			return
		}
		if !errors.Is(err, objstore.ErrUnavailable) || errors.Is(err, ErrCorrupt) || seen.WrongObjects != 0 || seen.Whole {
			t.Fatalf("from call %d on: %+v, %v", from, seen, err)
		}
	}
}

func TestAVerificationKeepsToItsRate(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	realWAL(t, store)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		seen, err := VerifyBackup(context.Background(), store, testLineage, "b1", VerifyOptions{MaxBytesPerSecond: 1 << 20, Workers: 1})
		must(t, err)
		want := time.Duration(float64(seen.StoredBytes) / (1 << 20) * float64(time.Second))
		if took := time.Since(begun); took < want || took > 2*want {
			t.Errorf("%d bytes took %s, want about %s", seen.StoredBytes, took, want)
		}
	})
}

// TestBackupsAreReadInSeveralBubbles: what one has to do with channels can't be used in another.
func TestBackupsAreReadInSeveralBubbles(t *testing.T) {
	store := mem.New()
	mustWrite(t, store, pgdata(t), "b1")
	read := func(t *testing.T) {
		_, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{Workers: 1, shortWAL: true})
		must(t, err)
	}
	for range 3 {
		synctest.Test(t, read)
		read(t)
	}
}
