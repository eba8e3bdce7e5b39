//go:build postgres

package replicate

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAPositionCountsWhatIsOnDiskWhoeverIsFollowed(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 2)
		primary, n := nodes[0], nodes[1]
		primary.insert(100)
		n.awaitLevel(primary)
		if p := primary.position(); p.Replica || !p.Settled || p.Timeline != 1 {
			t.Errorf("the primary: %+v", p)
		}
		want := n.position().Replayed // what came of the next record is nothing yet
		n.stop()
		n.start(nil) // nobody is to be followed
		await(t, "the replica to have read its disk", func() bool { return n.position().Settled })
		if p := n.position(); p.LSN < want || p.Timeline != 1 || p.Streaming || !p.Replica {
			t.Errorf("%+v, it was %s", p, want)
		}
		primary.insert(100)
		primary.kill()
		n.stop()
		n.start(primary) // which does not respond
		await(t, "the replica to have read its disk", func() bool { return n.position().Settled })
		if p := n.position(); p.LSN < want || p.Streaming {
			t.Errorf("%+v, it was %s", p, want)
		}
		n.promote()
		n.insert(1)
		if p := n.position(); p.Replica || p.Timeline != 2 || p.LSN <= want {
			t.Errorf("promoted: %+v", p)
		}
	})
}

func TestFollowersAreKnownByTheirPodsOnce(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 2)
		primary, n := nodes[0], nodes[1]
		primary.insert(10)
		n.awaitLevel(primary)
		await(t, "the primary to know", func() bool {
			written, all := primary.position().LSN, primary.followers()
			return len(all) == 1 && all[0].Pod == "shop-1" && all[0].Streaming() && all[0].Flushed >= written
		})
	})
}

// A clone that takes files from its own volume receives WAL by another program than one that fetches everything.
func TestAClonesWALIsNotThatOfAFollower(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		pgdata := t.TempDir()
		if err := os.Mkdir(filepath.Join(pgdata, "pg_wal"), 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		receiver, err := n.receiveWAL(ctx, primary.upstream(), "", pgdata)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			stop()
			<-receiver.ended
		}()
		await(t, "WAL to be received", func() bool {
			return primary.sql("SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'") == "1"
		})
		if all := primary.followers(); len(all) > 0 {
			t.Errorf("followers: %+v", all)
		}
	})
}

func (n *node) followers() (all []Follower) {
	n.bed.t.Helper()
	n.with(func(conn *pgx.Conn) (err error) {
		_, all, err = Followers(context.Background(), conn)
		return err
	})
	return all
}

func TestASessionInTheWayDoesNotHoldUpAPromotion(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		nodes := replicated(t, pg, 2)
		primary, n := nodes[0], nodes[1]
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
