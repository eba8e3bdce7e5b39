//go:build postgres

package restorejob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// stop shuts the server down in order.
func (b *bed) stop() {
	b.t.Helper()
	b.server.Stop()
	b.down = true
}

// discards has a task give the previous data up, which the cluster of the bed archives to the store that it restores from.
func (b *bed) discards(task *agentapi.RestoreJob) {
	task.InPlace, task.DiscardPrevious = true, "g0"
	task.PreviousArchive = &agentapi.PreviousArchive{ClusterUID: "uid", SafetyBackup: "first"}
}

// previous is a volume with the data of the server, which is down, and a task that gives that up.
func (b *bed) previous() (generation.Volume, agentapi.RestoreJob) {
	b.t.Helper()
	task := b.task(agentapi.RestoreTarget{Immediate: true})
	b.discards(&task)
	return b.volumeOf(strings.TrimSuffix(b.lineage, "-g0")), task
}

// idleArchiver waits until the archiver has nothing left to do. It may be late with the backup history file.
func (b *bed) idleArchiver() {
	b.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		waiting, err := filepath.Glob(filepath.Join(b.server.DataDir, "pg_wal", "archive_status", "*.ready"))
		b.must(err)
		if len(waiting) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%v were not archived: %s", waiting, b.server.Log())
		}
	}
}

// unarchived commits rows that archive_command can't archive any more, in several segments. Another command would be used only once the
// archiver has read it.
func (b *bed) unarchived(from, to int) {
	b.t.Helper()
	b.idleArchiver()
	b.must(os.Chmod(b.archived, 0o500))
	b.t.Cleanup(func() { b.must(os.Chmod(b.archived, 0o700)) })
	b.rows(from, (from+to)/2)
	b.exec("SELECT pg_switch_wal()")
	b.rows((from+to)/2+1, to)
}

// TestWhatOnlyThePreviousDataHasIsArchivedBeforeThatIsDiscarded restores the rows that were committed after the safety backup
// and never archived from the archive, once the data that had them is discarded.
func TestWhatOnlyThePreviousDataHasIsArchivedBeforeThatIsDiscarded(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.unarchived(121, 140)
		last := b.value("SELECT pg_walfile_name(pg_current_wal_lsn())")
		b.stop()
		volume, task := b.previous()
		if first, end, count := b.rowsIn(b.restoreOn(volume, b.store, task)); first != 1 || end != 120 || count != 120 {
			t.Fatalf("rows %d to %d, %d of them", first, end, count)
		}
		all := b.task(agentapi.RestoreTarget{})
		all.LastWAL = last
		if first, end, count := b.rowsIn(b.restore(b.store, all)); first != 1 || end != 140 || count != 140 {
			t.Errorf("of what was committed before the discard, the archive has rows %d to %d, %d of them", first, end, count)
		}
	})
}

// TestASegmentThatIsNotFullIsArchivedAsFarAsItWasWritten where PostgreSQL did not switch it at its shutdown, as it archived
// nothing.
func TestASegmentThatIsNotFullIsArchivedAsFarAsItWasWritten(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.server.Stop()
		b.server.Configure(map[string]string{"archive_mode": "off"})
		b.server.Start()
		b.connect()
		b.rows(121, 125)
		last := b.value("SELECT pg_walfile_name(pg_current_wal_lsn())")
		b.stop()
		volume, task := b.previous()
		if _, end, count := b.rowsIn(b.restoreOn(volume, b.store, task)); end != 120 || count != 120 {
			t.Fatalf("rows to %d, %d of them", end, count)
		}
		all := b.task(agentapi.RestoreTarget{})
		all.LastWAL = last
		if _, end, count := b.rowsIn(b.restore(b.store, all)); end != 125 || count != 125 {
			t.Errorf("the archive has rows to %d, %d of them", end, count)
		}
	})
}

// TestThePreviousDataIsNotDiscardedWhileItMayBeTheOnlyCopy of some rows, or while somebody uses it.
func TestThePreviousDataIsNotDiscardedWhileItMayBeTheOnlyCopy(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.unarchived(121, 140)
		b.stop()
		t.Run("its archive is not the repository of the restore", func(t *testing.T) {
			b := b.at(t)
			volume, task := b.previous()
			task.PreviousArchive = nil
			b.failsOn(volume, b.store, task, ReasonNotArchived, []string{"2 files of WAL", "nothing was touched"})
		})
		t.Run("its lineage is another cluster's", func(t *testing.T) {
			b := b.at(t)
			volume, task := b.previous()
			task.PreviousArchive.ClusterUID = "another"
			b.failsOn(volume, b.store, task, ReasonNotArchived, []string{"demo/shop"})
		})
		t.Run("the repository takes nothing", func(t *testing.T) {
			b := b.at(t)
			volume, task := b.previous()
			store := fault.New(b.store, fault.Plan{Before: func(call fault.Call) error {
				if call.Op == "put" {
					return &objstore.Error{Op: "put", Kind: objstore.ErrDenied}
				}
				return nil
			}})
			b.failsOn(volume, store, task, ReasonStore, nil)
		})
		t.Run("a segment was said to be archived, is not, and is removed", func(t *testing.T) {
			b := b.at(t)
			volume, task := b.previous()
			status, err := filepath.Glob(filepath.Join(volume.PGData("g0"), "pg_wal", "archive_status", "*.ready"))
			b.must(err)
			b.must(os.Remove(status[0]))
			segment := strings.TrimSuffix(filepath.Base(status[0]), ".ready")
			b.must(os.Remove(filepath.Join(volume.PGData("g0"), "pg_wal", segment)))
			b.failsOn(volume, b.store, task, ReasonNotArchived, []string{segment})
		})
		t.Run("a server runs on it", func(t *testing.T) {
			b := b.at(t)
			volume, task := b.previous()
			lock, err := volume.Lock("g0")
			b.must(err)
			defer lock.Close()
			o := b.restoreOn(volume, b.store, task)
			if !errors.Is(o.err, generation.ErrLocked) || final(o.err) {
				t.Errorf("%v", o.err)
			}
			if !volume.Whole("g0") {
				t.Error("g0 is not whole any more")
			}
		})
	})
}

// TestDataThatWasNotShutDownCleanlyIsNotDiscarded after a kill: what its WAL ends with is known only once it was recovered.
func TestDataThatWasNotShutDownCleanlyIsNotDiscarded(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 140)
		b.server.Kill()
		b.down = true
		volume, task := b.previous()
		b.failsOn(volume, b.store, task, ReasonUncleanShutdown, []string{string(postgres.StateInProduction), "nothing was touched"})
		failure := &job.Failure{}
		if o := b.restoreOn(volume, b.store, task); !errors.As(o.err, &failure) || !failure.Final {
			t.Errorf("another run is tried: %v", o.err)
		}
	})
}
