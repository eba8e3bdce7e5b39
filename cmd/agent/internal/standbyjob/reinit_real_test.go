//go:build postgres

package standbyjob

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// newer has the source, on its new timeline, write beyond what the standby has replayed, and be backed up.
func (b *bed) newer(id string) {
	b.t.Helper()
	b.rows(31, 80)
	b.archive()
	b.rows(81, 180)
	b.backup(id, func() {})
}

// afterwards are the rows of onADeadBranch once newer was followed.
const afterwards = 20 + 150

func (s *standby) awaitRefusal(text string) {
	s.b.t.Helper()
	s.await("it says that "+text, func() bool {
		r := s.said()
		return len(r.Problems) > 0 && r.Problems[0].Reason == agentapi.StandbyReinitializing && strings.Contains(r.Problems[0].Message, text)
	})
}

func TestACopyThatCantContinueIsReplacedByANewerBackupAndByNothingElse(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		s := b.onADeadBranch()
		s.mayReinit(agentapi.StandbyReinitFromNewer)
		s.awaitRefusal("so this copy is kept")
		if got := s.has(); got != 30 || s.copies() != "g1" {
			t.Errorf("%d rows in %s", got, s.copies())
		}
		b.newer("second")
		s.awaitRows(afterwards)
		s.mu.Lock()
		if p := s.plan; p.Backup != "second" || p.Reason != agentapi.StandbyDiverged || p.Beyond == "" || p.StartsAt.IsZero() {
			t.Errorf("it wasn't announced: %+v", p)
		}
		s.mu.Unlock()
		s.await("it says so", func() bool {
			r := s.said()
			return r.Stage == agentapi.StandbyFollowing && r.Backup == "second" && len(r.Problems) == 0 && r.Reinit == nil && r.ReinitializedAt != nil
		})
		if got := s.copies(); got != "g1" {
			t.Errorf("what was replaced is left: %s", got)
		}
		b.rows(181, 190)
		b.archive()
		s.awaitRows(afterwards + 10)
		s.want(agentapi.PromoteAtEndOfArchive)
		if rows, _ := s.promoted(); rows != afterwards+10 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestACopyIsReplacedWhereverThatIsKilled(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		s := b.onADeadBranch()
		b.newer("second")
		s.kill()
		s.mayReinit(agentapi.StandbyReinitFromNewer)
		for _, at := range []string{
			"Another copy is made", "Restoring a backup", "entering standby mode", "consistent recovery state reached", "The new copy has replaced", "entering standby mode",
		} {
			s.dieAt(at)
			s.start()
			if err := s.ended(); err == nil {
				t.Fatalf("%q: it was promoted", at)
			}
			if copies := s.copies(); !strings.Contains(copies, "g1") {
				t.Fatalf("%q leaves %q", at, copies)
			}
		}
		s.start()
		s.awaitRows(afterwards)
		if got := s.copies(); got != "g1" {
			t.Errorf("it leaves %s", got)
		}
	})
}

// slow is a store from which the backup can't be read until it is let go.
func slow(b *bed, backup string) (store objstore.Store, release func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	return fault.New(b.store, fault.Plan{Before: func(call fault.Call) error {
		if strings.Contains(call.Key, "packs/"+backup) {
			<-ctx.Done()
		}
		return nil
	}}), cancel
}

func TestAReinitializationGivesWayToAPersonAtAnyMoment(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		for name, c := range map[string]struct {
			act  func(s *standby)
			rows int
		}{
			"immediately, what there is":             {func(s *standby) { s.want(agentapi.PromoteImmediately) }, 30},
			"at the end of the archive, the new one": {func(s *standby) { s.want(agentapi.PromoteAtEndOfArchive) }, afterwards},
			"it was stopped": {func(s *standby) {
				s.mayReinit("Never")
				s.awaitProblem(agentapi.StandbyDiverged)
				s.awaitRows(30)
				if got := s.copies(); got != "g1" {
					s.b.t.Errorf("it leaves %s", got)
				}
				s.want(agentapi.PromoteImmediately)
			}, 30},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBed(t, pg)
				s := b.onADeadBranch()
				b.newer("second")
				s.kill()
				store, release := slow(b, "second")
				defer release()
				s.store = store
				s.mayReinit(agentapi.StandbyReinitFromNewer)
				s.start()
				s.await("it restores", func() bool { r := s.said().Reinit; return r != nil && r.Stage == agentapi.StandbyReinitRestoring })
				s.await("it restores", func() bool { return s.copies() == "g1 g1.next" })
				time.AfterFunc(time.Second, release)
				c.act(s)
				if rows, _ := s.promoted(); rows != c.rows {
					t.Errorf("%d rows", rows)
				}
			})
		}
	})
}

// What retention has deleted can't be replayed. The newest backup is older than the copy, and the source is lost.
func TestACopyIsKeptIfNoBackupIsNewer(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		s.mayReinit(agentapi.StandbyReinitFromNewer)
		s.start()
		s.awaitRows(20)
		s.kill()
		b.rows(21, 30)
		lost := b.server.SQL("SELECT pg_walfile_name(pg_current_wal_lsn())")
		b.archive()
		b.rows(31, 40)
		b.archive()
		key, err := wal.Key(b.lineage, lost)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.awaitRefusal("so this copy is kept") // after a minute, in which it may be on its way
		s.want(agentapi.PromoteImmediately)
		if rows, _ := s.promoted(); rows != 20 {
			t.Errorf("%d rows", rows)
		}
	})
}

// A backup that can't be read is no reason to try for ever, while nobody can look at the current copy.
func TestACopyOutlastsANewerBackupThatIsDamaged(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		s := b.onADeadBranch()
		b.newer("second")
		for info, err := range b.store.List(t.Context(), layout.BackupPacksPrefix(b.lineage, "second"), "") {
			if err != nil {
				t.Fatal(err)
			}
			if err := b.store.Put(t.Context(), info.Key, []byte("damaged"), objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.mayReinit(agentapi.StandbyReinitFromNewer)
		s.await("the current copy comes back, and the next attempt is announced for tomorrow", func() bool {
			return s.has() == 30 && s.copies() == "g1" && s.said().Reinit != nil && s.said().Reinit.StartsAt.After(time.Now().Add(20*time.Hour))
		})
	})
}

// move has the source continue with data that was kept in a lineage of its own, as after a Restore in place.
func (b *bed) move(kept, generation string) {
	b.t.Helper()
	owner, err := layout.ReadLineage(b.t.Context(), b.store, b.lineage)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lineage = layout.LineageName(owner.SystemIdentifier, generation)
	owner.Lineage, owner.Generation, owner.Created = b.lineage, generation, time.Now()
	if _, err := layout.Claim(b.t.Context(), b.store, owner); err != nil {
		b.t.Fatal(err)
	}
	b.failOverTo(kept, 2)
}

func TestAStandbyFollowsItsSourceIntoTheLineageThatAPersonNames(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s, first := b.standby(), b.lineage
		s.start()
		s.awaitRows(20)
		kept := b.keep()
		b.rows(21, 30)
		b.archive()
		s.awaitRows(30)
		b.move(kept, "g7") // with 20 rows
		s.kill()
		s.task.Standby.Lineage = b.lineage
		s.start()
		s.awaitRefusal("no backup yet")
		s.awaitRows(30)
		b.rows(31, 35)
		b.backup("restored", func() {})
		s.await("it follows the new lineage", func() bool { return s.said().Lineage == b.lineage && s.said().ReinitializedAt != nil })
		s.awaitRows(25)
		s.kill()
		s.task.Standby.Lineage = first // an old manifest
		s.start()
		s.awaitRefusal("may come from an old manifest")
		s.awaitRows(25)
		s.want(agentapi.PromoteAtEndOfArchive)
		if rows, _ := s.promoted(); rows != 25 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestALineageOfAnotherClusterIsNotFollowed(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		s.start()
		s.awaitRows(20)
		s.kill()
		owner, err := layout.ReadLineage(t.Context(), b.store, b.lineage)
		if err != nil {
			t.Fatal(err)
		}
		owner.Lineage, owner.Writer.UID, owner.Generation = layout.LineageName(owner.SystemIdentifier, "g8"), "other", "g8"
		if _, err := layout.Claim(t.Context(), b.store, owner); err != nil {
			t.Fatal(err)
		}
		s.task.Standby.Lineage = owner.Lineage
		s.start()
		s.awaitRefusal("of another cluster")
		s.awaitRows(20)
	})
}

// The lineage and the manifest may say anything. The data says whose it is.
func TestDataOfAnotherDatabaseNeverReplacesACopy(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		ours, other := newBed(t, pg), newBed(t, pg)
		for name, c := range map[string]struct {
			next *bed
			want error
		}{"the same": {ours, nil}, "another": {other, errUnwanted}} {
			s := ours.standby()
			present := &Worker{}
			present.Volume, present.DataGeneration, present.Run, present.BinDir = s.volume, "g1", postgres.Exec, ours.server.BinDir
			maker := present.beside(record{})
			for id, b := range map[string]*bed{"g1": ours, maker.DataGeneration: c.next} {
				if _, err := s.volume.Begin(id); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(b.server.DataDir, s.volume.PGData(id)); err != nil {
					t.Fatal(err)
				}
			}
			if err := (&reinit{present: present, maker: maker}).sameDatabase(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
