//go:build postgres

package replicate

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// archives has the server that is started next archive into a store, as the agent does, once it has a copy.
func (n *node) archives(store objstore.Store, system string, primary bool) *archive.Archiver {
	n.bed.t.Helper()
	t := n.bed.t
	g, err := n.Volume.Resolve(wanted)
	if err != nil {
		t.Fatal(err)
	}
	n.Paths.WAL = pgtest.Beside(t, walProgram)
	a := archive.New(filepath.Join(n.Volume.PGData(g.ID), "pg_wal"), n.Log, time.Now,
		archive.Limits{Patience: 5 * time.Second, LastPatience: 5 * time.Second, Pause: 50 * time.Millisecond})
	t.Cleanup(a.Close)
	a.SetPrimary(primary)
	a.SetTarget(&archive.Target{Store: store, Writer: n.Pod, Memory: 64 << 20, Claim: layout.Lineage{
		Lineage: layout.LineageName(system, wanted), SystemIdentifier: system, Generation: wanted, SegmentSize: postgres.DefaultSegSize,
		Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: n.bed.pg.Major, Created: time.Unix(1, 0).UTC(),
	}})
	listener, err := walsocket.Listen(n.Paths.SocketDir)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = walsocket.Serve(t.Context(), listener, a) }()
	return a
}

// fill writes something and switches to the next segment; it returns the name of the one before.
func (n *node) fill() string {
	n.bed.t.Helper()
	n.insert(1)
	return n.sql("SELECT pg_walfile_name(pg_switch_wal())")
}

func archived(t *testing.T, a *archive.Archiver) string {
	t.Helper()
	last, err := a.Archived()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestWhatADeadPrimaryHadNotArchivedTheNextOneDoes(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, next := b.found(), b.nodes[1]
		system := primary.sql("SELECT system_identifier::text FROM pg_control_system()")
		primary.keepSlots(nil)
		primary.stop()
		var away atomic.Bool
		store := fault.New(mem.New(), fault.Plan{Before: func(fault.Call) error {
			if away.Load() {
				return &objstore.Error{Kind: objstore.ErrUnavailable, Err: errors.New("away")}
			}
			return nil
		}})
		ofPrimary := primary.archives(store, system, true)
		primary.start(nil)
		next.clone(primary)
		ofNext := next.archives(store, system, false)
		next.start(primary)
		next.awaitStreaming(primary)

		confirmed := primary.fill()
		await(t, "the primary to archive", func() bool { return archived(t, ofPrimary) >= confirmed })
		next.awaitLevel(primary)
		if got := archived(t, ofNext); got != "" {
			t.Errorf("the replica says that %s is archived, before anybody told it", got)
		}
		ofNext.Confirmed(archived(t, ofPrimary), true)
		await(t, "the replica to know", func() bool { return archived(t, ofNext) >= confirmed })

		unconfirmed := primary.fill() // both push it
		await(t, "the primary to archive", func() bool { return archived(t, ofPrimary) >= unconfirmed })
		away.Store(true)
		var kept []string
		for range 3 {
			kept = append(kept, primary.fill())
		}
		next.awaitLevel(primary)
		primary.kill()
		away.Store(false)
		next.promote()
		ofNext.SetPrimary(true)
		last := next.fill()
		await(t, "the next primary to archive", func() bool { return archived(t, ofNext) >= last })
		if status := ofNext.Status(); status.Error != "" {
			t.Errorf("%+v", status)
		}
		coverage, err := wal.New(store).Coverage(context.Background(), layout.LineageName(system, wanted))
		if err != nil || len(coverage.Timelines) != 2 {
			t.Fatalf("%+v, %v", coverage, err)
		}
		if first := coverage.Timelines[0]; len(first.Holes) != 0 || first.Last.Name() < kept[2] {
			t.Errorf("%+v, it should go to %s", first, kept[2])
		}

		away.Store(true)
		next.fill()
		ofNext.GivingUp(true)
		began := time.Now()
		next.stop()
		t.Logf("it took %v to stop", time.Since(began))
		if waits, err := archive.Ready(filepath.Join(next.Volume.PGData("g1.c1"), "pg_wal")); err != nil || len(waits) == 0 {
			t.Errorf("nothing waits for the archive any more: %v", err)
		}
	})
}

// TestAReplicaThatFellBehindTakesTheWayOfItsPrimaryThroughTheArchive: the archive has WAL of a former primary that nobody
// followed, under the names of the timeline that the replica was on.
func TestAReplicaThatFellBehindTakesTheWayOfItsPrimaryThroughTheArchive(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b, store := newBed(t, pg, 3), mem.New()
		for name, value := range map[string]string{"wal_keep_size": "0", "min_wal_size": "32MB", "wal_retrieve_retry_interval": "200ms"} {
			b.config.Parameters[name] = value
		}
		old, next, late := b.found(), b.nodes[1], b.nodes[2]
		system := old.sql("SELECT system_identifier::text FROM pg_control_system()")
		b.nodes = b.nodes[:2]
		old.keepSlots(nil)
		old.stop()
		ofOld := old.archives(store, system, true)
		old.start(nil)
		next.clone(old)
		ofNext := next.archives(store, system, false)
		next.start(old)
		late.clone(old)

		old.fill()
		old.fill()
		next.awaitStreaming(old)
		next.awaitLevel(old)
		thaw := next.freeze(old)
		old.fill()
		nobodys := old.fill()
		await(t, "the old primary to archive what nobody follows", func() bool { return archived(t, ofOld) >= nobodys })
		old.kill()
		thaw()
		ofNext.Confirmed(nobodys, true)
		next.promote()
		ofNext.SetPrimary(true)
		last := ""
		for range 5 {
			last = next.fill()
		}
		await(t, "the next primary to archive", func() bool { return archived(t, ofNext) >= last })
		next.sql("CHECKPOINT")
		b.nodes = append(b.nodes, late)
		next.keepSlots(nil)

		ofLate := late.archives(store, system, false)
		late.start(next)
		await(t, "the replica to settle", func() bool { return late.position().Settled })
		remedy, history, err := late.Assess(t.Context(), next.upstream(), late.position())
		if err != nil || remedy != ByClone {
			t.Fatalf("%v, %v", remedy, err)
		}
		ofLate.Confirmed(archived(t, ofNext), true)
		if offers, err := ofLate.Offers(t.Context(), history, late.position().LSN); err != nil || !offers {
			t.Fatalf("%v, %v", offers, err)
		}
		if err := ofLate.Supply(history, filepath.Join(b.dir, "fetched")); err != nil {
			t.Fatal(err)
		}
		late.behind = true
		late.follow(next)
		late.awaitStreaming(next)
		late.awaitLevel(next)
		if got, want := late.sql(contents), next.sql(contents); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	})
}
