//go:build postgres

package restorejob

import (
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/readonly"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// Whoever deletes from the bucket may know of no Restore of this namespace.
func TestARestoreSaysInTheBucketWhatItReadsFromTheFirstByteToTheLast(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 200)
		b.archive()
		var mu sync.Mutex
		said, silent := map[string]bool{}, 0
		watched := fault.New(b.store, fault.Plan{Before: func(call fault.Call) error {
			if call.Op != "get" && call.Op != "read" || !strings.HasPrefix(call.Key, "lineages/") {
				return nil
			}
			found, err := readnotice.List(t.Context(), b.store, b.lineage, time.Now())
			mu.Lock()
			defer mu.Unlock()
			if len(found) != 1 || !found[0].Reads("first") || found[0].Reads("second") {
				silent++
				return err
			}
			said[found[0].Name] = true
			return err
		}})
		task := b.task(agentapi.RestoreTarget{})
		task.Object = agentapi.Object{Namespace: "demo", Name: "back", UID: "u-1"}
		if _, last, _ := b.rowsIn(b.restore(watched, task)); last != 200 || silent > 0 || len(said) != 1 || !said["Restore demo/back"] {
			t.Errorf("it restored up to row %d; %d reads were not announced, and others by %v", last, silent, said)
		}
		if found, err := readnotice.List(t.Context(), b.store, b.lineage, time.Now()); err != nil || len(found) > 0 {
			t.Errorf("at the end %v, %v", found, err)
		}
		if _, last, _ := b.rowsIn(b.restore(readonly.New(b.store), task)); last != 200 {
			t.Errorf("where nothing can be written, it restored up to row %d", last)
		}
	})
}
