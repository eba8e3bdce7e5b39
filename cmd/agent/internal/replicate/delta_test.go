//go:build postgres

package replicate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// again clones a node that has a copy already, and returns how much of that was taken.
func (n *node) again(of *node, replaces string) (generation.Generation, int64) {
	n.bed.t.Helper()
	log := &bytes.Buffer{}
	before := n.Log
	n.Log = slog.New(slog.NewTextHandler(io.MultiWriter(n.bed.t.Output(), log), nil))
	defer func() { n.Log = before }()
	g, err := n.Clone(n.bed.t.Context(), of.upstream(), Wanted{DataGeneration: wanted, MajorVersion: n.bed.pg.Major, Replaces: replaces}, func(int64, int64) {})
	if err != nil {
		n.bed.t.Fatal(err)
	}
	if err := n.Volume.Adopt(g.ID); err != nil {
		n.bed.t.Fatal(err)
	}
	found := regexp.MustCompile(`bytesTaken=(\d+)`).FindSubmatch(log.Bytes())
	if found == nil {
		return g, -1
	}
	taken, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return g, taken
}

// content is a checksum of all rows.
func (n *node) content() string {
	n.bed.t.Helper()
	return n.sql("SELECT count(*) || ' ' || md5(string_agg(i || note, ',' ORDER BY i)) FROM public.t")
}

// harm writes other bytes into the largest files of a data directory.
func harm(t *testing.T, pgdata string) {
	t.Helper()
	harmed := 0
	err := filepath.Walk(filepath.Join(pgdata, "base"), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || info.Size() < 8<<20 {
			return err
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		harmed++
		_, err = file.WriteAt([]byte("these bytes are none of PostgreSQL's"), info.Size()/2)
		return err
	})
	if err != nil || harmed == 0 {
		t.Fatalf("harmed %d files: %v", harmed, err)
	}
}

func TestACloneTakesFromItsOwnFilesWhatIsTheSame(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 140000) n")
		primary.sql("CREATE TABLE public.dropped AS SELECT n FROM generate_series(1, 1000) n")
		primary.sql("CREATE UNLOGGED TABLE public.passing AS SELECT n FROM generate_series(1, 1000) n")
		primary.sql("VACUUM public.t") // reading it changes no page any more
		first := n.clone(primary)
		primary.sql("UPDATE public.t SET note = 'changed' WHERE i % 5000 = 0")
		primary.sql("DROP TABLE public.dropped")
		primary.sql("CREATE TABLE public.added AS SELECT n FROM generate_series(1, 1000) n")
		harm(t, n.Volume.PGData(first.ID))

		second, taken := n.again(primary, first.ID)
		if taken < 40<<20 {
			t.Errorf("it took %d bytes of what it had", taken)
		}
		primary.sql("INSERT INTO public.t VALUES (-1, 'after the clone')")
		primary.keepSlots(nil)
		n.start(primary)
		n.awaitStreaming(primary)
		n.awaitLevel(primary)
		if want, got := primary.content(), n.content(); want != got {
			t.Errorf("the clone has %s, and its source %s", got, want)
		}
		if got := n.sql("SELECT count(*)::text FROM public.added"); count(got) != "1000" {
			t.Errorf("added rows: %s", got)
		}
		if left, err := filepath.Glob(filepath.Join(n.Volume.PGData(second.ID), "pg_wal", "*.partial")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

func TestACopyBecomesTheCloneWhereThereIsNoRoomForBoth(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 140000) n")
		primary.sql("CREATE TABLE public.dropped AS SELECT n FROM generate_series(1, 1000) n")
		primary.sql("CREATE TABLE public.shorter AS SELECT n, repeat('y', 100) FROM generate_series(1, 50000) n")
		primary.sql("VACUUM public.t")
		first := n.clone(primary)
		primary.sql("UPDATE public.t SET note = 'changed' WHERE i % 5000 = 0")
		primary.sql("DROP TABLE public.dropped")
		primary.sql("DELETE FROM public.shorter WHERE n > 10")
		primary.sql("VACUUM public.shorter")
		primary.sql("CREATE TABLE public.added AS SELECT n FROM generate_series(1, 1000) n")
		harm(t, n.Volume.PGData(first.ID))
		if err := os.WriteFile(filepath.Join(n.Volume.PGData(first.ID), "base", "1", "none_of_the_source"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}

		second := n.Volume.PGData("g1.c2")
		if _, err := n.Volume.Begin("g1.c2"); err != nil {
			t.Fatal(err)
		}
		if err := n.Volume.TakeOver("g1.c2", first.ID); err != nil {
			t.Fatal(err)
		}
		if ids := n.copies(); len(ids) != 1 || n.Volume.Whole(wanted) {
			t.Errorf("there are %v, and one may be started", ids)
		}
		at, err := n.inspect(t.Context(), primary.upstream())
		if err != nil {
			t.Fatal(err)
		}
		taken, err := n.deltaClone(t.Context(), primary.upstream(), at, second, "g1.c2", func(int64, int64) {})
		if err != nil || taken < 40<<20 {
			t.Errorf("it took %d bytes of what it had: %v", taken, err)
		}
		g := generation.Generation{ID: "g1.c2", Of: wanted, SystemIdentifier: at.system, MajorVersion: pg.Major, Origin: generation.Clone}
		if err := errors.Join(n.finish(t.Context(), g, second), n.Volume.Adopt(g.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(second, "base", "1", "none_of_the_source")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that the source doesn't have is still there: %v", err)
		}
		primary.keepSlots(nil)
		n.start(primary)
		n.awaitStreaming(primary)
		n.awaitLevel(primary)
		if want, got := primary.content(), n.content(); want != got {
			t.Errorf("the clone has %s, and its source %s", got, want)
		}
		if want, got := primary.sql("SELECT pg_relation_size('public.shorter')::text"), n.sql("SELECT pg_relation_size('public.shorter')::text"); want != got {
			t.Errorf("a table that was truncated has %s, and %s at its source", got, want)
		}
	})
}

// The files of the volume may be those of another database system, as after a major upgrade or a restore in place.
func TestACloneUnderWritesFromFilesOfAnotherSystemHasWhatItsSourceHas(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		other := newBed(t, pg, 1).found()
		other.sql("INSERT INTO public.t SELECT n, repeat('y', 1000) FROM generate_series(100000, 120000) n")
		other.sql("CHECKPOINT")
		other.stop()

		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		primary.sql("INSERT INTO public.t SELECT n, repeat('x', 1000) FROM generate_series(100000, 120000) n")
		if err := os.CopyFS(n.Volume.PGData("g0"), os.DirFS(other.Volume.PGData(wanted))); err != nil {
			t.Fatal(err)
		}
		stop, writes := make(chan struct{}), sync.WaitGroup{}
		writes.Go(func() {
			for i := 200000; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				primary.sql(fmt.Sprintf("INSERT INTO public.t VALUES (%d, repeat('z', 3000))", i))
				primary.sql(fmt.Sprintf("UPDATE public.t SET note = 'u%d' WHERE i BETWEEN %d AND %d", i, 100000+i%20000, 100020+i%20000))
				primary.sql(fmt.Sprintf("CREATE TABLE public.t%d AS SELECT 1 AS one", i))
				primary.sql(fmt.Sprintf("DROP TABLE IF EXISTS public.t%d", i-3))
			}
		})
		_, taken := n.again(primary, "g0")
		close(stop)
		writes.Wait()
		if taken < 1<<20 { // the catalogs
			t.Errorf("it took %d bytes of what it had", taken)
		}
		primary.keepSlots(nil)
		n.start(primary)
		n.awaitStreaming(primary)
		n.awaitLevel(primary)
		if want, got := primary.content(), n.content(); want != got {
			t.Errorf("the clone has %s, and its source %s", got, want)
		}
	})
}

func TestACloneIsFetchedWholeFromASourceThatDoesNotLetItCompare(t *testing.T) {
	subset.OnlyInFull(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		primary, n := b.found(), b.nodes[1]
		first := n.clone(primary)
		primary.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_backup_start(text, boolean) FROM howdah_replication")
		if _, taken := n.again(primary, first.ID); taken != -1 {
			t.Errorf("it took %d bytes", taken)
		}
		primary.keepSlots(nil)
		n.start(primary)
		n.awaitStreaming(primary)
	})
}
