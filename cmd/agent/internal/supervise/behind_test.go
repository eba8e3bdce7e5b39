//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// fallBehind stops the second of two for so long that the first keeps no more the WAL that it needs.
func (c *pair) fallBehind() {
	c.first.t.Helper()
	if err := c.second.terminate(time.Minute); err != nil {
		c.first.t.Fatal(err)
	}
	needed, last := c.first.sql("SELECT pg_walfile_name(pg_current_wal_lsn())"), ""
	for range 10 {
		last = c.first.fill()
	}
	c.first.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive.LastWAL >= last && s.Archive.Waiting == 0 })
	c.first.sql("CHECKPOINT")
	c.first.await("lose what the other one needs", func() bool {
		return c.first.sql("SELECT count(*)::text FROM pg_ls_waldir() WHERE name = '"+needed+"'") == "0"
	})
}

func TestAReplicaThatFellBehindReadsTheArchiveAndIsNotCloned(t *testing.T) {
	two, _ := newPair(t)
	two.run()
	before, err := two.second.Volume.Current()
	if err != nil {
		t.Fatal(err)
	}
	two.fallBehind()
	began := time.Now()
	two.second.start()
	two.second.awaitStatus("read the archive", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.FromArchive })
	two.awaitStreaming()
	t.Logf("it took %v", time.Since(began).Round(time.Millisecond))
	want := two.first.sql("SELECT count(*)::text FROM public.t")
	two.second.await("have everything", func() bool { return two.second.sql("SELECT count(*)::text FROM public.t") == want })
	if after, err := two.second.Volume.Current(); err != nil || after != before {
		t.Errorf("it was %s and is %s, %v", before, after, err)
	}
	two.second.await("have no restore_command any more", func() bool { return two.second.sql("SHOW restore_command") == "" })
	two.second.awaitStatus("say so", func(s agentapi.Status) bool { return s.Replication != nil && !s.Replication.FromArchive })
}

func TestAReplicaThatFellBehindIsClonedWhileTheArchiveIsAway(t *testing.T) {
	two, store := newPair(t)
	two.run()
	before, err := two.second.Volume.Current()
	if err != nil {
		t.Fatal(err)
	}
	two.fallBehind()
	store.away(true)
	two.second.start()
	two.awaitStreaming()
	if after, err := two.second.Volume.Current(); err != nil || after == before {
		t.Errorf("it is %s as before, %v", after, err)
	}
}
