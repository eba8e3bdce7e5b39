package backup

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// A worker on a node that doesn't respond may live on while others have given it up, and may stand still at any moment.
func TestWhatAWorkerCommitsAfterItWasGivenUpDoesNotCount(t *testing.T) {
	for _, moment := range []struct {
		name, op, key string
	}{
		{"before it looks for its packs", "list", "/packs/b1/"},
		{"when it puts the manifest", "put", "/backups/b1/"},
	} {
		t.Run(moment.name, func(t *testing.T) {
			store, dir := mem.New(), pgdata(t)
			src := source(t, store, dir)
			givenUp := sync.OnceFunc(func() {
				_, err := Delete(t.Context(), store, testLineage, "b1")
				must(t, err)
			})
			slow := fault.New(store, fault.Plan{Before: func(c fault.Call) error {
				if c.Op == moment.op && strings.Contains(c.Key, moment.key) {
					givenUp()
				}
				return nil
			}})
			_, err := Write(t.Context(), slow, src, Options{ID: "b1"})
			if left := keys(t, store); err != nil && contains(left, "/b1/") {
				t.Errorf("it ends with %v, and has left %v", err, left)
			}
			if _, err := Committed(t.Context(), store, testLineage, "b1"); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("it counts: %v", err)
			}
			must(t, onlyUsed(t, store, mustWrite(t, store, dir, "b1")))
			must(t, roundTrip(t.Context(), store, t.TempDir()))
		})
	}
}

// A worker that was killed may have put its manifest all the same: what was sent lies in a server that hangs, and is done
// once that continues.
func TestAManifestThatArrivesAfterItsPacksWereClearedAwayIsNoBackup(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	key := layout.ManifestKey(testLineage, "b1")
	late, err := store.Get(t.Context(), key, 1<<30)
	must(t, err)
	arrive := func() { must(t, store.Put(t.Context(), key, late, objstore.PutOptions{})) }

	meanwhile := fault.New(store, fault.Plan{After: func(c fault.Call) error {
		if c.Op == "delete" && strings.Contains(c.Key, "/packs/") {
			arrive()
		}
		return nil
	}})
	_, err = Delete(t.Context(), meanwhile, testLineage, "b1")
	must(t, err)
	if left := keys(t, store); contains(left, "/b1/") {
		t.Errorf("the deleted backup is back: %v", left)
	}

	arrive()
	if header, err := Committed(t.Context(), store, testLineage, "b1"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("it counts as %+v, %v", header, err)
	}
	manifest := mustWrite(t, store, dir, "b1")
	must(t, onlyUsed(t, store, manifest))
	must(t, roundTrip(t.Context(), store, t.TempDir()))
	if header, err := Committed(t.Context(), store, testLineage, "b1"); err != nil || header.StopLSN != manifest.StopLSN || header.PackBytes() != manifest.PackBytes() {
		t.Errorf("the next one counts as %+v, %v", header, err)
	}
}

// Who asks whether a backup counts must not be given its header, as if it did, when that isn't known.
func TestABackupWhosePacksCanNotBeListedIsNotSaidToBeCommitted(t *testing.T) {
	store := mem.New()
	mustWrite(t, store, pgdata(t), "b1")
	silent := fault.New(store, fault.Plan{Before: func(c fault.Call) error {
		if c.Op == "list" && strings.Contains(c.Key, "/packs/") {
			return objstore.ErrUnavailable
		}
		return nil
	}})
	if header, err := Committed(t.Context(), silent, testLineage, "b1"); !errors.Is(err, objstore.ErrUnavailable) || header != nil {
		t.Errorf("%+v, %v", header, err)
	}
}
