//go:build postgres

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// fallBehind stops the second of two for so long that the first keeps no more the WAL that it needs.
func (c *pair) fallBehind() {
	c.first.t.Helper()
	if err := c.second.terminate(time.Minute); err != nil { // nil if it has ended already
		c.first.t.Fatal(err)
	}
	needed, last := c.first.sql("SELECT pg_walfile_name(pg_current_wal_lsn())"), ""
	for range 10 {
		last = c.first.fill()
	}
	c.first.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive.LastWAL >= last && s.Archive.Waiting == 0 })
	c.first.awaitFor(2*time.Minute, "lose what the other one needs", func() bool {
		c.first.sql("CHECKPOINT") // from PostgreSQL 17 on it keeps what has not been summarized yet
		return c.first.sql("SELECT count(*)::text FROM pg_ls_waldir() WHERE name = '"+needed+"'") == "0"
	})
}

func TestAReplicaThatFellBehindReadsTheArchiveAndIsNotCloned(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel() // it mostly waits
	two, _ := newPair(t)
	two.run()
	before := two.second.current()
	two.fallBehind()
	began := time.Now()
	two.second.start()
	two.second.awaitStatus("read the archive", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.FromArchive })
	two.awaitStreaming()
	t.Logf("it took %v", time.Since(began).Round(time.Millisecond))
	want := two.first.sql("SELECT count(*)::text FROM public.t")
	two.second.await("have everything", func() bool { return two.second.sql("SELECT count(*)::text FROM public.t") == want })
	if after := two.second.current(); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	two.second.await("have no restore_command any more", func() bool { return two.second.sql("SHOW restore_command") == "" })
	two.second.awaitStatus("say so", func(s agentapi.Status) bool { return s.Replication != nil && !s.Replication.FromArchive })
}

func TestAReplicaThatFellBehindIsClonedWhileTheArchiveIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for minutes; make test-full has it")
	}
	pgtest.OneVersionIsEnough(t)
	t.Parallel() // it mostly waits
	two, store := newPair(t)
	two.run()
	before := two.second.current()
	two.fallBehind()
	store.away(true)
	two.second.start()
	two.awaitStreaming()
	if after := two.second.current(); after == before {
		t.Errorf("it is %s as before", after)
	}
}

// loseWAL ends the second of two at once, amid a lot that it has yet to write to its files, and takes away the WAL that makes
// these consistent.
func (c *pair) loseWAL() {
	t, pgdata := c.first.t, c.second.Volume.PGData(c.second.current())
	t.Helper()
	c.first.sql("CREATE TABLE public.big AS SELECT i, repeat('x', 500) AS filler FROM generate_series(1, 100000) AS i")
	c.second.await("have it all", func() bool { return c.second.sql("SELECT (to_regclass('public.big') IS NOT NULL)::text") == "true" })
	if err := syscall.Kill(c.second.pid(), syscall.SIGSTOP); err != nil { // so that it can't be shut down in order
		t.Fatal(err)
	}
	_ = c.second.terminate(time.Minute) // it says that this was no clean shutdown
	binDir, err := postgres.BinDir(t.Context(), postgres.Exec, c.second.config.MajorVersion)
	if err != nil {
		t.Fatal(err)
	}
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, binDir, pgdata)
	if err != nil {
		t.Fatal(err)
	}
	last := postgres.SegmentOf(control.Timeline, control.Checkpoint, control.SegSize)
	if needs := postgres.SegmentBefore(control.Timeline, control.MinRecoveryEnd, control.SegSize); needs.Name() <= last.Name() {
		t.Fatalf("it needs WAL only up to %s, and its checkpoint is in %s", needs.Name(), last.Name())
	}
	segments, err := filepath.Glob(filepath.Join(pgdata, "pg_wal", strings.Repeat("[0-9A-F]", 24)))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range segments {
		if filepath.Base(path) > last.Name() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAReplicaThatCanNeverBecomeConsistentIsCloned(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for minutes; make test-full has it")
	}
	pgtest.OneVersionIsEnough(t)
	t.Parallel() // it mostly waits
	two, store := newPair(t)
	for _, p := range []*pod{two.first, two.second} {
		p.configure(p.with(map[string]string{"max_wal_size": "1GB", "checkpoint_timeout": "1h"})) // no restartpoint meanwhile
	}
	two.second.grace = 2 * time.Second // so that it is soon stopped at once
	two.run()
	before := two.second.current()
	two.loseWAL()
	two.fallBehind()
	store.away(true)
	two.second.start()
	said := two.second.awaitStatus("say that it is stuck", func(s agentapi.Status) bool { return strings.Contains(s.Message, "The recovery is stuck") })
	if said.State != agentapi.StateStarting || !strings.Contains(said.Message, "0000000") {
		t.Errorf("%+v", said)
	}
	two.second.awaitFor(2*time.Minute, "clone", func() bool { s := two.second.agent.Status(); return s.Rejoin != nil && s.Rejoin.Method == "Clone" })
	two.awaitStreaming()
	if after := two.second.current(); after == before {
		t.Errorf("it is %s as before", after)
	}
	if s := two.second.agent.Status(); s.Message != "" {
		t.Errorf("it still says %q", s.Message)
	}
}
