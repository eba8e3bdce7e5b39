package backup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// accident is a database whose backups are made, deleted and swept by processes that are killed at any call.
type accident struct {
	*database
	kept map[string]string // what each backup that may be there was made of
	log  []string
}

func (a *accident) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

func (a *accident) fail(format string, args ...any) {
	a.Helper()
	a.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(a.log, "\n"))
}

// breaking is the store for a process that is killed two times of three.
func (a *accident) breaking(calls int) objstore.Store {
	if a.random.IntN(3) == 0 {
		return a.store
	}
	return crashing(a.store, 1+a.random.IntN(calls), a.random.IntN(2) == 0)
}

func (a *accident) there() (ids []string) {
	a.Helper()
	entries, err := List(a.Context(), a.store, testLineage)
	must(a, err)
	for _, e := range entries {
		if e.Err != nil {
			a.fail("%s: %v", e.ID, e.Err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// backUp runs workers until one has made the backup, or it is given up as the controller does it.
func (a *accident) backUp() {
	a.Helper()
	a.backups++
	id, parent := fmt.Sprintf("b%03d", a.backups), ""
	if all := a.there(); len(all) > 0 && a.random.IntN(5) > 0 {
		parent = all[a.random.IntN(len(all))]
	}
	a.kept[id] = filepath.Join(a.TempDir(), "kept")
	must(a, exec.Command("cp", "-a", a.dir, a.kept[id]).Run())
	for range 4 {
		_, err := Write(a.Context(), a.breaking(40), a.source, Options{ID: id, Parent: parent})
		a.note("backup %s on %q: %v", id, parent, err)
		if err != nil && !errors.Is(err, errCrash) {
			a.fail("the crash of %s shows as %v", id, err)
		}
		if err == nil {
			return
		}
	}
	if _, err := Committed(a.Context(), a.store, testLineage, id); err == nil {
		return // the last one was killed after its last put
	}
	_, err := Delete(a.Context(), a.store, testLineage, id)
	must(a, err)
	if left := keys(a, a.store); contains(left, "/"+id+"/") {
		a.fail("%s was given up, and there are %v", id, left)
	}
}

// remove deletes backups, as a person or as retention does.
func (a *accident) remove(ids []string) {
	for _, id := range ids {
		freed, err := Delete(a.Context(), a.breaking(12), testLineage, id)
		a.note("delete %s: %d, %v", id, freed, err)
	}
}

// verify reads every byte of every backup that is there.
func (a *accident) verify() {
	a.Helper()
	for _, id := range a.there() {
		m, err := ReadManifest(a.Context(), a.store, testLineage, id)
		must(a, err)
		if _, err := Verify(a.Context(), a.store, m, VerifyOptions{Workers: 1, shortWAL: true}); err != nil {
			a.fail("backup %s: %v", id, err)
		}
	}
}

func (a *accident) sweep(store objstore.Store) error {
	_, _, err := SweepOrphans(a.Context(), store, testLineage, time.Now().Add(time.Hour))
	a.note("sweep: %v", err)
	return err
}

// TestWhoeverIsKilledEveryBackupThatIsThereRestoresExactly takes random histories of changes, backups, deletions and sweeps.
func TestWhoeverIsKilledEveryBackupThatIsThereRestoresExactly(t *testing.T) {
	fewPacksAtATime(t)
	base := uint64(os.Getpid()) << 8
	seeds := uint64(4)
	if raceDetector && testing.Short() {
		seeds = 1 // the others run without it
	}
	for seed := base; seed < base+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			a := &accident{database: newDatabase(t, seed, seed%2 == 0), kept: map[string]string{}}
			for range 25 {
				a.change()
				switch n := a.random.IntN(12); {
				case n < 7:
					a.backUp()
				case n < 9:
					if all := a.there(); len(all) > 0 {
						a.remove(all[a.random.IntN(len(all)):][:1])
					}
				case n < 10: // the last three stay
					all := a.there()
					a.remove(all[:max(0, len(all)-3)])
				default:
					_ = a.sweep(a.breaking(12))
				}
				a.verify()
			}
			for _, id := range a.there() {
				m, err := ReadManifest(t.Context(), a.store, testLineage, id)
				must(t, err)
				a.restores(m, a.kept[id])
			}
			a.nothingElseIsThere()
		})
	}
}

// nothingElseIsThere sweeps, and looks whether every pack is needed; and deletes all.
func (a *accident) nothingElseIsThere() {
	a.Helper()
	must(a, a.sweep(a.store))
	used := packPaths{}
	for _, id := range a.there() {
		header, err := ReadHeader(a.Context(), a.store, testLineage, id)
		must(a, err)
		used.addAll(header)
	}
	for _, key := range keys(a, a.store) {
		if _, pack, ok := strings.Cut(key, "/packs/"); ok && !used[pack] || strings.Contains(key, "/claims/") {
			a.fail("%s is needed by nobody", key)
		}
	}
	for _, id := range slices.Backward(a.there()) {
		_, err := Delete(a.Context(), a.store, testLineage, id)
		must(a, err)
	}
	if left := keys(a, a.store); contains(left, "/packs/") || contains(left, "/backups/") {
		a.fail("all are deleted, and there are %v", left)
	}
}
