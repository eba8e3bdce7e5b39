package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// fewPacksAtATime makes a test look at packs in several passes.
func fewPacksAtATime(t *testing.T) {
	t.Helper()
	usually := packsAtATime
	packsAtATime = 8
	t.Cleanup(func() { packsAtATime = usually })
}

func somePacks(backup string, n int) (packs Packs) {
	for i := range n {
		packs = append(packs, Pack{Backup: backup, Name: fmt.Sprintf("x-%06d", i), Size: 1})
	}
	return packs
}

func TestAnyNumberOfPacksIsToldFromThoseThatNobodyUsesInTheSameMemory(t *testing.T) {
	fewPacksAtATime(t)
	packs, header, unused, passes := somePacks("b1", 5000), Header{}, map[string]int{}, 0
	header.Packs = append(packs[:4000:4000], packs[1000:4000]...) // several backups point at the same
	err := eachRangeOfPacks(func(used *usedPacks) error {
		used.addAll(&header)
		return nil
	}, func(used *usedPacks) error {
		passes++
		for _, pack := range packs {
			if used.unused(pack.Backup, pack.Name) {
				unused[pack.Name]++
			}
		}
		if cap(used.all) > 2*packsAtATime {
			t.Errorf("it has room for %d", cap(used.all))
		}
		return nil
	})
	must(t, err)
	for i, pack := range packs {
		if want := i / 4000; unused[pack.Name] != want {
			t.Fatalf("%s is unused %d times, not %d", pack.Name, unused[pack.Name], want)
		}
	}
	if passes < 4000/packsAtATime || passes > 4000/packsAtATime*4 {
		t.Errorf("it took %d passes", passes)
	}
}

// TestWhatALongHistoryNoLongerUsesIsDeleted where its packs don't fit into the memory.
func TestWhatALongHistoryNoLongerUsesIsDeleted(t *testing.T) {
	fewPacksAtATime(t)
	store, all := mem.New(), map[string]Packs{"b1": somePacks("b1", 100), "b2": somePacks("b2", 100), "gone": somePacks("gone", 50)}
	for _, packs := range all {
		for _, pack := range packs {
			must(t, store.Put(t.Context(), layout.PackKey(testLineage, pack.Backup, pack.Name), []byte("x"), objstore.PutOptions{}))
		}
	}
	first, second := fullManifest("b1"), fullManifest("b2")
	first.Packs, second.Packs = all["b1"], append(all["b1"][:30:30], all["b2"]...)
	for _, m := range []*Manifest{first, second} {
		putManifest(t, store, m)
	}
	_, err := Committed(t.Context(), store, testLineage, "b2")
	must(t, err)
	ids, freed, err := SweepOrphans(t.Context(), store, testLineage, time.Now().Add(time.Hour))
	must(t, err)
	if len(ids) != 1 || freed != 50 {
		t.Errorf("swept %d bytes of %v", freed, ids)
	}
	freed, err = Delete(t.Context(), store, testLineage, "b1")
	must(t, err)
	if freed != 70 {
		t.Errorf("deleting b1 freed %d", freed)
	}
	if _, err := Committed(t.Context(), store, testLineage, "b2"); err != nil {
		t.Error(err)
	}
	must(t, store.Delete(t.Context(), layout.PackKey(testLineage, "b2", "x-000077")))
	if _, err := Committed(t.Context(), store, testLineage, "b2"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a pack is missing: %v", err)
	}
	must(t, store.Put(t.Context(), layout.PackKey(testLineage, "b2", "x-000077"), []byte("xy"), objstore.PutOptions{}))
	if _, err := Committed(t.Context(), store, testLineage, "b2"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a pack is too long: %v", err)
	}
}

// TestASweepThatIsEndedGoesOnWhereItEnded, so that it comes to its end however little time each run has.
func TestASweepThatIsEndedGoesOnWhereItEnded(t *testing.T) {
	fewPacksAtATime(t)
	store, old := mem.New(), time.Now().Add(time.Hour)
	b1 := fullManifest("b1")
	b1.Packs = somePacks("b1", 20)
	putManifest(t, store, b1)
	for _, packs := range []Packs{b1.Packs, somePacks("gone1", 20), somePacks("gone2", 20), somePacks("gone3", 20)} {
		for _, pack := range packs {
			must(t, store.Put(t.Context(), layout.PackKey(testLineage, pack.Backup, pack.Name), []byte("x"), objstore.PutOptions{}))
		}
	}
	sweep, freed, runs, errEnded := &Sweep{}, int64(0), 0, errors.New("ended")
	for err := errEnded; err != nil; runs++ {
		if runs > 100 {
			t.Fatal("it comes to no end")
		}
		folders := 0
		ended := fault.New(store, fault.Plan{Before: func(call fault.Call) error {
			if call.Op == "list" && strings.Contains(call.Key, "/packs/") {
				folders++
			}
			if folders > 2 { // a run has the time for two
				return errEnded
			}
			return nil
		}})
		var bytes int64
		_, bytes, err = sweep.Run(t.Context(), ended, testLineage, old)
		if freed += bytes; err != nil && !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
	}
	if _, err := Committed(t.Context(), store, testLineage, "b1"); err != nil || freed != 60 || runs < 4 {
		t.Errorf("freed %d packs in %d runs; %v", freed, runs, err)
	}
	if again, freed, err := sweep.Run(t.Context(), store, testLineage, old); len(again) > 0 || freed > 0 || err != nil {
		t.Errorf("the next one sweeps %d bytes of %v, %v", freed, again, err)
	}
}

// TestNothingIsRemovedForAnObjectThatIsListedAndNotFound: so says a proxy that finds no store for a moment.
func TestNothingIsRemovedForAnObjectThatIsListedAndNotFound(t *testing.T) {
	store := mem.New()
	for id, packs := range map[string]Packs{"b1": somePacks("b1", 3), "b2": append(somePacks("b1", 2), somePacks("b2", 2)...), "b3": somePacks("b3", 1)} {
		for _, pack := range packs {
			must(t, store.Put(t.Context(), layout.PackKey(testLineage, pack.Backup, pack.Name), []byte("x"), objstore.PutOptions{}))
		}
		if m := fullManifest(id); id != "b3" { // which is being written
			m.Packs = packs
			putManifest(t, store, m)
		}
	}
	claim := layout.ClaimKey(testLineage, "b3", "run")
	must(t, store.Put(t.Context(), claim, []byte(`{"backup":"b3","packs":[{"backup":"b1","name":"x-000002","size":1}]}`), objstore.PutOptions{}))
	before := keys(t, store)
	for _, key := range []string{layout.ManifestKey(testLineage, "b2"), claim} {
		proxied := fault.New(store, fault.Plan{Before: func(call fault.Call) error {
			if call.Key == key && call.Op != "list" && call.Op != "delete" {
				return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrNotFound}
			}
			return nil
		}})
		_, errDelete := Delete(t.Context(), proxied, testLineage, "b1")
		_, _, errSweep := SweepOrphans(t.Context(), proxied, testLineage, time.Now().Add(-time.Hour))
		errs := []error{errDelete, errSweep}
		if key != claim {
			_, errWAL := neededWAL(t.Context(), proxied, testLineage)
			_, errWhole := Committed(t.Context(), proxied, testLineage, "b2")
			_, errManifest := ReadManifest(t.Context(), proxied, testLineage, "b2")
			errs = append(errs, errWAL, errWhole, errManifest)
		}
		for i, err := range errs {
			if err == nil || errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%s is not found, call %d: %v", key, i, err)
			}
		}
		if after := keys(t, store); !slices.Equal(before, after) {
			t.Errorf("%s is not found: %d objects are left of %d", key, len(after), len(before))
		}
	}
}
