//go:build postgres

package restorejob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestRestores restores one archive to many points: rows up to 120 are in the backup, up to 200 before the moment that
// is named in three ways, up to 300 after it.
func TestRestores(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 200)
		at, err := time.Parse(time.RFC3339Nano, b.value("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"))
		if err != nil {
			t.Fatal(err)
		}
		lsn := b.value("SELECT pg_current_wal_lsn()::text")
		xid := b.xidOf(200)
		no, yes := false, true
		b.exec("SELECT pg_create_restore_point('before')")
		b.rows(201, 300)
		inPadding := b.value("SELECT pg_switch_wal()::text")
		b.archive()

		for name, test := range subset.Of(4, map[string]struct {
			target agentapi.RestoreTarget
			last   int
		}{
			"to a time":                        {agentapi.RestoreTarget{Time: &at}, 200},
			"to an LSN":                        {agentapi.RestoreTarget{LSN: lsn}, 200},
			"to a restore point":               {agentapi.RestoreTarget{RestorePoint: "before"}, 200},
			"to the end":                       {agentapi.RestoreTarget{}, 300},
			"to an LSN beyond the last record": {agentapi.RestoreTarget{LSN: inPadding}, 300},
			"to a transaction":                 {agentapi.RestoreTarget{XID: xid}, 200},
			"to right before a transaction":    {agentapi.RestoreTarget{XID: xid, Inclusive: &no}, 199},
			"to the end of the backup":         {agentapi.RestoreTarget{Immediate: true}, 120},
			"to a time, said to be included":   {agentapi.RestoreTarget{Time: &at, Inclusive: &yes}, 200},
			"to an LSN right after the backup": {agentapi.RestoreTarget{LSN: b.manifest.StopLSN.String()}, 120},
		}) {
			t.Run(name, func(t *testing.T) { b.at(t).restoresTo(test.target, test.last) })
		}
		t.Run("in place, beside the previous data", func(t *testing.T) { b.at(t).restoresInPlace() })
		t.Run("in place, beside another database's data", func(t *testing.T) { b.at(t).fetchesBesideAnother() })
		t.Run("not beyond the planned end", func(t *testing.T) { b.at(t).stopsAtThePlannedEnd() })
		t.Run("what is whole is reported again", func(t *testing.T) { b.at(t).reportsAgain() })
		t.Run("a time beyond the end is refused", func(t *testing.T) {
			late := time.Now().Add(time.Hour)
			b.at(t).refuses(b.store, agentapi.RestoreTarget{Time: &late}, "TargetUnreachable", "doesn't lead to time")
		})
		t.Run("a transaction that did not commit is refused", func(t *testing.T) {
			b.at(t).refuses(b.store, agentapi.RestoreTarget{XID: xid + 100000}, "TargetUnreachable", "doesn't lead to transaction")
		})
		t.Run("a missing segment is named", func(t *testing.T) { b.at(t).missesASegment() })
		t.Run("a flipped byte in a segment is named", func(t *testing.T) {
			b.at(t).findsAFlip(layout.TimelinePrefix(b.lineage, 1)+b.last, b.last)
		})
		t.Run("a flipped byte in a pack is named", func(t *testing.T) {
			b.at(t).findsAFlip(b.anyPack(), "needed for file")
		})
		t.Run("a deleted backup is refused", func(t *testing.T) {
			b.at(t).refuses(mem.New(), agentapi.RestoreTarget{}, "BackupNotFound", "first")
		})
	})
}

// TestATablespaceComesBack as a folder of the data directory, whatever place it had: PostgreSQL ends recovery at the sight of
// such a folder unless it is told not to.
func TestATablespaceComesBack(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.exec("CREATE TABLESPACE cold LOCATION '" + pgtest.Dir(t) + "'")
		b.exec("SET default_tablespace = cold")
		b.rows(1, 100)
		b.backup()
		b.rows(121, 130)
		b.archive()
		b.restoresTo(agentapi.RestoreTarget{}, 130)
		b.restoresTo(agentapi.RestoreTarget{Immediate: true}, 120)
	})
}

// xidOf is the transaction that inserted a row.
func (b *bed) xidOf(row int) int64 {
	xid, err := strconv.ParseInt(b.value(fmt.Sprintf("SELECT xmin::text FROM rows WHERE n = %d", row)), 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return xid
}

// at is the bed for a subtest.
func (b *bed) at(t *testing.T) *bed {
	sub := *b
	sub.t = t
	return &sub
}

func (b *bed) restoresTo(target agentapi.RestoreTarget, want int) {
	o := b.restore(b.store, b.task(target))
	first, last, count := b.rowsIn(o)
	if first != 1 || last != want || count != want {
		b.t.Errorf("rows %d to %d, %d of them; want 1 to %d", first, last, count, want)
	}
	if o.result.Timeline != 2 || o.result.ReachedLSN == "" || o.result.LastCommit == nil || o.result.SystemIdentifier != b.manifest.SystemIdentifier {
		b.t.Errorf("result: %+v", o.result)
	}
	g, err := o.worker.Volume.Read("g1")
	if err != nil || g.Origin != "restore" || g.SystemIdentifier != b.manifest.SystemIdentifier {
		b.t.Errorf("generation: %+v, %v", g, err)
	}
	if len(o.progress) == 0 || o.progress[len(o.progress)-1].Phase != phaseCompleted {
		b.t.Errorf("progress: %+v", o.progress)
	}
	if _, err := os.Stat(filepath.Join(o.worker.Volume.Dir("g1"), "spool")); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("spool: %v", err)
	}
}

func (b *bed) stopsAtThePlannedEnd() {
	task := b.task(agentapi.RestoreTarget{})
	task.LastWAL = b.manifest.WAL.Last
	if _, last, _ := b.rowsIn(b.restore(b.store, task)); last != 120 {
		b.t.Errorf("the last row is %d", last)
	}
}

func (b *bed) reportsAgain() {
	o := b.restore(b.store, b.task(agentapi.RestoreTarget{}))
	again, err := o.worker.Restore(b.t.Context(), b.task(agentapi.RestoreTarget{}))
	if err != nil || !reflect.DeepEqual(again, o.result) {
		b.t.Errorf("%+v, %v; was %+v", again, err, o.result)
	}
}

// refuses expects a final failure with a reason and a part of its sentence, and nothing left on the volume.
func (b *bed) refuses(store objstore.Store, target agentapi.RestoreTarget, reason, part string) {
	b.t.Helper()
	o := b.restore(store, b.task(target))
	failure := &job.Failure{}
	if !errors.As(o.err, &failure) || !failure.Final || failure.Reason != reason || !strings.Contains(o.err.Error(), part) {
		b.t.Errorf("%#v: %v; want %s with %q", failure, o.err, reason, part)
	}
	if _, err := os.Stat(o.worker.Volume.Dir("g1")); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("something is left: %v", err)
	}
}

// copyStore is a copy to damage.
func (b *bed) copyStore() *mem.Store {
	b.t.Helper()
	copied := mem.New()
	for info, err := range b.store.List(b.t.Context(), "", "") {
		if err != nil {
			b.t.Fatal(err)
		}
		body, err := b.store.Get(b.t.Context(), info.Key, 1<<30)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := copied.Put(b.t.Context(), info.Key, body, objstore.PutOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	return copied
}

func (b *bed) missesASegment() {
	store := b.copyStore()
	if err := store.Delete(b.t.Context(), layout.TimelinePrefix(b.lineage, 1)+b.last); err != nil {
		b.t.Fatal(err)
	}
	b.refuses(store, agentapi.RestoreTarget{}, "TargetUnreachable", b.last)
}

func (b *bed) anyPack() string {
	b.t.Helper()
	for info, err := range b.store.List(b.t.Context(), layout.PacksPrefix(b.lineage), "") {
		if err != nil {
			b.t.Fatal(err)
		}
		return info.Key
	}
	b.t.Fatal("no pack")
	return ""
}

func (b *bed) findsAFlip(key, part string) {
	store := b.copyStore()
	body, err := store.Get(b.t.Context(), key, 1<<30)
	if err != nil {
		b.t.Fatal(err)
	}
	body[len(body)*2/3] ^= 0x10
	if err := store.Put(b.t.Context(), key, body, objstore.PutOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.refuses(store, agentapi.RestoreTarget{}, "DataCorrupt", part)
}
