//go:build postgres

package standbyjob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAStandbyFollowsItsSourceAndIsPromotedAtTheEndOfTheArchive(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 50)
		b.backup("first", func() { b.rows(51, 60) })
		s := b.standby()
		s.start()
		s.awaitRows(60)
		b.rows(61, 100)
		b.archive()
		s.awaitRows(100)
		s.await("it says how far it is", func() bool {
			r := s.said()
			return r.Stage == agentapi.StandbyFollowing && r.Lineage == b.lineage && r.Backup == "first" && r.LagBytes == 0 && r.Replayed != "" && r.Archived != "" && r.ReplayedTime != nil && r.ArchivedAt != nil
		})
		b.rows(101, 120)
		b.ship() // the open segment
		time.Sleep(time.Second)
		if got := s.has(); got != 100 {
			t.Errorf("it has %d rows: the open segment was replayed before the promotion", got)
		}
		before := b.contents()
		s.want(agentapi.PromoteAtEndOfArchive)
		rows, timeline := s.promoted()
		if rows != 120 || timeline != 2 {
			t.Errorf("%d rows on timeline %d", rows, timeline)
		}
		if after := b.contents(); after != before {
			t.Errorf("the bucket has changed: %s, it was %s", after, before)
		}
		note := filepath.Join(s.volume.PGData("g1"), "pg_wal", "archive_status", "00000002.history.")
		if _, err := os.Stat(note + "ready"); err != nil {
			if _, err := os.Stat(note + "done"); err != nil { // the server that was started has done so
				t.Errorf("the history of the new timeline is not archived: %v", err)
			}
		}
		b.rows(121, 130) // the source doesn't notice
		b.archive()
	})
}

func TestAStandbyFollowsAFailoverOfItsSourceAndLargerSettings(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		s.start()
		s.awaitRows(20)
		b.failOver(2)
		b.rows(21, 40)
		b.archive()
		s.awaitRows(40)
		b.server.Configure(map[string]string{"max_connections": "60"})
		b.failOver(5) // passing over two numbers
		b.rows(41, 60)
		b.archive()
		s.awaitRows(60)
		s.want(agentapi.PromoteAtEndOfArchive)
		if rows, timeline := s.promoted(); rows != 60 || timeline <= 5 {
			t.Errorf("%d rows on timeline %d", rows, timeline)
		}
	})
}

// What is asked of another attempt is nothing: the volume alone knows.
func TestAPromotionContinuesWhereverItIsKilled(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		const end, now = agentapi.PromoteAtEndOfArchive, agentapi.PromoteImmediately
		for _, c := range []struct {
			at  string
			how agentapi.StandbyPromotion
		}{
			{"A promotion was requested", end}, {"Everything in the archive is replayed", end}, {"received promote request", end}, {"selected new timeline ID", end},
			{"archive recovery complete", end}, {"Promoted the standby", end}, {"A promotion was requested", now}, {"selected new timeline ID", now}, {"archive recovery complete", now},
		} {
			t.Run(strings.ReplaceAll(string(c.how)+": "+c.at, " ", "-"), func(t *testing.T) {
				b := *b
				b.t = t
				s := b.standby()
				s.start()
				s.awaitRows(20)
				s.dieAt(c.at)
				s.want(c.how)
				if err := s.ended(); err == nil {
					t.Fatalf("%q was never said, or was said too late", c.at)
				}
				s.want("")
				s.start()
				if rows, _ := s.promoted(); rows != 20 {
					t.Errorf("%d rows", rows)
				}
			})
		}
	})
}

func TestAStandbyContinuesWhereverItIsKilled(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		for _, at := range []string{"Restoring a backup first", "entering standby mode", "consistent recovery state reached"} {
			s.killAt = at
			s.start()
			if err := s.ended(); err == nil {
				t.Fatalf("%q: it was promoted", at)
			}
		}
		s.start()
		s.awaitRows(20)
		b.rows(21, 30)
		b.archive()
		s.killServer()
		s.awaitRows(30)
		if got := s.said().Stage; got != agentapi.StandbyFollowing {
			t.Errorf("stage %s", got)
		}
	})
}

func TestAMissingSegmentIsNotTheEndOfTheArchive(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
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
		s := b.standby()
		s.start()
		s.awaitRows(20)
		s.want(agentapi.PromoteAtEndOfArchive)
		s.await("it says what it waits for", func() bool {
			r := s.said()
			return r.Stage == agentapi.StandbyPromoting && len(r.Problems) > 0 && strings.Contains(r.Problems[len(r.Problems)-1].Message, "The archive continues to LSN")
		})
		time.Sleep(2 * time.Second)
		select {
		case <-s.done:
			t.Fatalf("it was promoted without segment %s: %v", lost, s.err)
		default:
		}
		s.want(agentapi.PromoteImmediately)
		if rows, _ := s.promoted(); rows != 20 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestAPromotionWaitsForAnArchiveThatIsAway(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		var away atomic.Bool
		s := b.standby()
		s.store = fault.New(b.store, fault.Plan{Before: func(call fault.Call) error {
			if away.Load() {
				return &objstore.Error{Op: call.Op, Key: call.Key, Kind: objstore.ErrUnavailable, Err: errors.New("away")}
			}
			return nil
		}})
		s.start()
		s.awaitRows(20)
		away.Store(true)
		b.rows(21, 30)
		b.archive()
		s.want(agentapi.PromoteAtEndOfArchive)
		s.await("it says that the archive is away", func() bool { return s.said().Stage == agentapi.StandbyPromoting && len(s.said().Problems) > 0 })
		time.Sleep(2 * time.Second)
		select {
		case <-s.done:
			t.Fatalf("it was promoted although nobody knows what the archive has: %v", s.err)
		default:
		}
		away.Store(false)
		if rows, _ := s.promoted(); rows != 30 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestAServerThatAPersonHasPromotedIsNoStandbyAndNoCluster(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		s.start()
		s.awaitRows(20)
		s.do("SELECT pg_promote(wait => false)")
		s.await("it says so", func() bool {
			r := s.said()
			return r.Stage == agentapi.StandbyFollowing && len(r.Problems) > 0 && strings.Contains(r.Problems[0].Message, "somebody has promoted PostgreSQL")
		})
		s.want(agentapi.PromoteImmediately)
		if rows, _ := s.promoted(); rows != 20 {
			t.Errorf("%d rows", rows)
		}
	})
}

// A source that has failed over to a server without all of the archived WAL leaves a branch that nobody follows.
func TestADeadBranchOfTheTimelineIsNamed(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		s := b.onADeadBranch()
		s.want(agentapi.PromoteAtEndOfArchive)
		time.Sleep(2 * time.Second)
		select {
		case <-s.done:
			t.Fatalf("it was promoted at the end of a branch that nobody follows: %v", s.err)
		default:
		}
		s.want(agentapi.PromoteImmediately)
		if rows, _ := s.promoted(); rows != 30 {
			t.Errorf("%d rows", rows)
		}
	})
}

// PostgreSQL doesn't start on data that is not part of the newest timeline. If the source is lost by then, the data is all there is.
func TestDataOnADeadBranchIsServedAndPromotedAlsoAfterItsPodWasReplaced(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		s := b.onADeadBranch()
		s.kill()
		s.start()
		s.awaitProblem(agentapi.StandbyDiverged)
		s.awaitRows(30)
		s.kill()
		s.want(agentapi.PromoteImmediately)
		s.start()
		if rows, timeline := s.promoted(); rows != 30 || timeline <= 2 {
			t.Errorf("%d rows on timeline %d", rows, timeline)
		}
	})
}

// onADeadBranch is a standby with 30 rows of which the source, which is on timeline 2 by now, lacks the last ten.
func (b *bed) onADeadBranch() *standby {
	b.t.Helper()
	b.rows(1, 20)
	b.backup("first", func() {})
	s := b.standby()
	s.start()
	s.awaitRows(20)
	kept := b.keep()
	b.rows(21, 30)
	b.server.SQL("CHECKPOINT")
	b.archive()
	s.awaitRows(30)
	s.do("CHECKPOINT") // a restartpoint beyond the fork
	b.failOverTo(kept, 2)
	s.awaitProblem(agentapi.StandbyDiverged)
	return s
}

func TestADataGenerationThatWasPromotedIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 20)
		b.backup("first", func() {})
		s := b.standby()
		s.start()
		s.awaitRows(20)
		s.want(agentapi.PromoteImmediately)
		if rows, _ := s.promoted(); rows != 20 {
			t.Errorf("%d rows", rows)
		}
		b.rows(21, 30)
		b.archive()
		s.want("")
		if err := os.Remove(filepath.Join(s.volume.Dir("g1"), "generation.json")); err != nil { // as if it had been killed before
			t.Fatal(err)
		}
		s.start()
		if err := s.ended(); err != nil {
			t.Fatal(err)
		}
		s.store = fault.New(b.store, fault.Plan{Before: func(fault.Call) error { return errors.New("nobody asks") }})
		s.start()
		if err := s.ended(); err != nil || s.result.DataGeneration != "g1" {
			t.Errorf("%+v, %v", s.result, err)
		}
		if rows, _ := s.promoted(); rows != 20 {
			t.Errorf("it followed again, to %d rows", rows)
		}
	})
}
