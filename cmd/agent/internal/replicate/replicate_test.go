//go:build postgres

package replicate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAReplicaTakesOverAndTheOldPrimaryFollowsIt(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		old, next, third := b.found(), b.nodes[1], b.nodes[2]
		old.keepSlots(nil)
		next.join(old)
		third.join(old)
		old.insert(1000)
		next.awaitLevel(old)
		third.awaitLevel(old)
		want := old.sql(contents)
		if got := next.sql(contents); got != want || count(got) != "2000" {
			t.Errorf("the replica has %s instead of %s", got, want)
		}

		thaw, thawThird := next.freeze(), third.freeze()
		old.insert(500) // that nobody else has
		old.kill()
		thaw()
		thawThird()
		next.promote()
		next.insert(10)
		third.follow(next)
		third.awaitStreaming(next)

		g, err := old.Volume.Resolve(wanted)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Rewind(t.Context(), next.upstream(), g); err != nil {
			t.Fatal(err)
		}
		old.start(next)
		old.awaitStreaming(next)
		next.insert(10)
		want = next.sql(contents)
		for _, n := range []*node{old, third} {
			n.awaitLevel(next)
			if got := n.sql(contents); got != want || count(got) != "2020" {
				t.Errorf("%s has %s instead of %s", n.Pod, got, want)
			}
			if p := n.position(); p.Timeline != 2 || !p.Replica || !p.Settled {
				t.Errorf("%s: %+v", n.Pod, p)
			}
		}
		if got := old.copies(); !slices.Equal(got, []string{"g1"}) {
			t.Errorf("copies: %v", got)
		}
	})
}

func TestAPrimaryThatWasShutDownInOrderIsFitToFollow(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		old, next := b.found(), b.nodes[1]
		old.keepSlots(nil)
		next.join(old)
		old.insert(500)
		old.stop() // which sends everything
		next.promote()
		next.insert(10)
		g, err := old.Volume.Resolve(wanted)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Rewind(t.Context(), next.upstream(), g); err != nil {
			t.Fatal(err)
		}
		if standby, err := settings.IsStandby(old.Volume.PGData(g.ID)); !standby || err != nil || old.Volume.Rewinding(g.ID) {
			t.Errorf("%v, %v", standby, err)
		}
		old.start(next)
		old.awaitStreaming(next)
		old.awaitLevel(next)
		if got, want := old.sql(contents), next.sql(contents); got != want || count(got) != "1510" {
			t.Errorf("%s instead of %s", got, want)
		}
	})
}

func TestAReplicaThatIsAheadOfTheNewPrimaryIsFoundAndRewound(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		old, next, ahead := b.found(), b.nodes[1], b.nodes[2]
		old.keepSlots(nil)
		next.join(old)
		ahead.join(old)
		thaw := next.freeze()
		old.insert(500)
		ahead.awaitLevel(old)
		old.kill()
		thaw()
		next.promote()
		next.insert(10)

		ahead.follow(next)
		if remedy, err := ahead.Assess(t.Context(), next.upstream(), ahead.position()); remedy != ByRewind || err != nil {
			t.Errorf("the one ahead: %v, %v", remedy, err)
		}
		ahead.kill() // in the middle of recovery
		g, err := ahead.Volume.Resolve(wanted)
		if err != nil {
			t.Fatal(err)
		}
		if err := ahead.Rewind(t.Context(), next.upstream(), g); err != nil {
			t.Fatal(err)
		}
		ahead.start(next)
		ahead.awaitStreaming(next)
		ahead.awaitLevel(next)
		if got, want := ahead.sql(contents), next.sql(contents); got != want || count(got) != "1010" {
			t.Errorf("%s instead of %s", got, want)
		}
		if remedy, err := ahead.Assess(t.Context(), next.upstream(), ahead.position()); remedy != NoRemedy || err != nil {
			t.Errorf("afterwards: %v, %v", remedy, err)
		}
		gone := Position{Timeline: 1, LSN: 0x1000100}
		if remedy, err := ahead.Assess(t.Context(), next.upstream(), gone); remedy != ByClone || err != nil {
			t.Errorf("one whose WAL is gone: %v, %v", remedy, err)
		}
	})
}

func TestACopyThatWasHalfRewoundIsClonedAnew(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		first := n.clone(primary)
		if err := n.Volume.BeginRewind(first.ID); err != nil {
			t.Fatal(err)
		}
		if err := n.Rewind(t.Context(), primary.upstream(), first); !errors.Is(err, ErrClone) {
			t.Errorf("%v", err)
		}
		second := n.clone(primary)
		if first.ID != "g1.c1" || second.ID != "g1.c2" || second.Of != "g1" || second.From != "shop-0" || second.SystemIdentifier != first.SystemIdentifier {
			t.Errorf("%+v, %+v", first, second)
		}
		if n.Volume.Original(wanted) || n.Volume.Rewinding(second.ID) {
			t.Error("the clone is taken for what it replaced")
		}
		n.start(primary)
		for range 200 { // it is refused again and again, as there is no slot for it
			if p := n.position(); p.Streaming {
				t.Fatalf("without a slot: %+v", p)
			}
		}
		primary.keepSlots(nil)
		n.awaitStreaming(primary)
	})
}

func TestACloneThatFailsLeavesNothing(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 150000) n")
		task := Wanted{DataGeneration: wanted, MajorVersion: pg.Major}
		for name, test := range map[string]struct {
			change func(*settings.Upstream, *Wanted, context.CancelFunc) func(done, total int64)
			want   error
		}{
			"it is ended": {func(_ *settings.Upstream, _ *Wanted, cancel context.CancelFunc) func(int64, int64) {
				return func(done, total int64) { cancel() }
			}, context.Canceled},
			"another system is wanted": {func(_ *settings.Upstream, w *Wanted, _ context.CancelFunc) func(int64, int64) {
				w.SystemIdentifier = "7"
				return nil
			}, ErrForeign},
			"the source has another name": {func(u *settings.Upstream, _ *Wanted, _ context.CancelFunc) func(int64, int64) {
				u.Host = "shop-7.shop-pods.demo.svc"
				return nil
			}, nil},
			"another major is wanted": {func(_ *settings.Upstream, w *Wanted, _ context.CancelFunc) func(int64, int64) {
				w.MajorVersion = 99
				return func(int64, int64) {}
			}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				source, task := primary.upstream(), task
				progress := test.change(&source, &task, cancel)
				_, err := n.Clone(ctx, source, task, progress)
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("%v", err)
				}
				t.Log(err)
				if left := n.copies(); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	})
}

func TestWALThatComesWithACloneIsKeptUntilItIsArchived(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		g := n.clone(primary)
		entries, err := os.ReadDir(filepath.Join(n.Volume.PGData(g.ID), "pg_wal", "archive_status"))
		if err != nil || len(entries) == 0 {
			t.Fatalf("%v, %v", entries, err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".ready") {
				t.Errorf("%s", entry.Name())
			}
		}
	})
}

func TestAPositionCountsWhatIsOnDiskWhoeverIsFollowed(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.keepSlots(nil)
		n.join(primary)
		primary.insert(100)
		n.awaitLevel(primary)
		if p := primary.position(); p.Replica || !p.Settled || p.Timeline != 1 {
			t.Errorf("the primary: %+v", p)
		}
		want := n.position()
		n.stop()
		n.start(nil) // nobody is to be followed
		await(t, "the replica to have read its disk", func() bool { return n.position().Settled })
		if p := n.position(); p.LSN < want.LSN || p.Timeline != 1 || p.Streaming || !p.Replica {
			t.Errorf("%+v, it was %+v", p, want)
		}
		primary.insert(100)
		primary.kill()
		n.stop()
		n.start(primary) // which does not answer
		await(t, "the replica to have read its disk", func() bool { return n.position().Settled })
		if p := n.position(); p.LSN < want.LSN || p.Streaming {
			t.Errorf("%+v, it was %+v", p, want)
		}
		n.promote()
		n.insert(1)
		if p := n.position(); p.Replica || p.Timeline != 2 || p.LSN <= want.LSN {
			t.Errorf("promoted: %+v", p)
		}
	})
}

func TestFollowersAreKnownByTheirPodsOnce(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.keepSlots(nil)
		n.join(primary)
		primary.insert(10)
		n.awaitLevel(primary)
		await(t, "the primary to know", func() bool {
			var all []Follower
			written := primary.position().LSN
			primary.with(func(conn *pgx.Conn) (err error) {
				_, all, err = Followers(context.Background(), conn)
				return err
			})
			return len(all) == 1 && all[0].Pod == "shop-1" && all[0].Streaming() && all[0].Flushed >= written
		})
	})
}

func TestSlotsAreKeptForPeersAndForNobodyElse(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		primary, n := b.found(), b.nodes[1]
		primary.sql("SELECT pg_create_physical_replication_slot('somebody_elses')")
		primary.sql("SELECT pg_create_physical_replication_slot('howdah_shop_9')")
		primary.keepSlots(nil)
		const names = "SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots"
		if got := primary.sql(names); got != "howdah_shop_1 howdah_shop_2 somebody_elses" {
			t.Errorf("at the primary: %s", got)
		}
		n.join(primary)
		before := n.keepSlots(nil)
		primary.sql("SELECT pg_switch_wal()")
		primary.insert(10)
		primary.sql("CHECKPOINT")
		n.awaitLevel(primary)
		n.sql("CHECKPOINT") // a restartpoint
		positions := primary.keepSlots(nil)
		positions["shop-0"] = uint64(primary.position().LSN)
		n.keepSlots(positions)
		after := n.keepSlots(nil)
		if after["shop-0"] <= before["shop-0"] || after["shop-0"] > uint64(primary.position().LSN) {
			t.Errorf("for the primary it was %d and is %d", before["shop-0"], after["shop-0"])
		}
		if after["shop-2"] != before["shop-2"] || after["shop-2"] == 0 {
			t.Errorf("for one that never came it was %d and is %d", before["shop-2"], after["shop-2"])
		}
		if got := n.sql(names); got != "howdah_shop_0 howdah_shop_2" {
			t.Errorf("at the replica: %s", got)
		}
		b.nodes = b.nodes[:2]
		primary.keepSlots(nil)
		if got := primary.sql(names); got != "howdah_shop_1 somebody_elses" {
			t.Errorf("after one is gone for good: %s", got)
		}
	})
}

func TestASessionInTheWayDoesNotHoldUpAPromotion(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.keepSlots(nil)
		n.join(primary)
		n.awaitLevel(primary)
		conn, err := n.local.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.PgConn().Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.t").ReadAll(); err != nil {
			t.Fatal(err)
		}
		primary.sql("DELETE FROM public.t WHERE i < 500")
		primary.sql("VACUUM public.t")
		primary.insert(1)
		received := primary.position().LSN
		await(t, "the conflict", func() bool {
			p := n.position()
			return p.LSN >= received && p.Replayed < received
		})
		_ = syscall.Kill(primary.server.PID(), syscall.SIGSTOP)
		defer syscall.Kill(primary.server.PID(), syscall.SIGCONT)
		began := time.Now()
		n.promote()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		if got := n.sql("SELECT max(i)::text FROM public.t"); got != "1001" {
			t.Errorf("the last row is %s", got)
		}
	})
}

func TestASlotThatHasLostItsWALIsMadeAnew(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		b.config.Parameters["max_slot_wal_keep_size"], b.config.Parameters["wal_keep_size"] = "16MB", "0"
		primary := b.found()
		primary.keepSlots(nil)
		const status = "SELECT wal_status FROM pg_replication_slots"
		for range 4 {
			primary.insert(1)
			primary.sql("SELECT pg_switch_wal()")
		}
		primary.sql("CHECKPOINT")
		if got := primary.sql(status); got != "lost" {
			t.Fatalf("the slot is %s", got)
		}
		primary.keepSlots(nil)
		if got := primary.sql(status); got != "reserved" {
			t.Errorf("the slot is %s", got)
		}
	})
}
