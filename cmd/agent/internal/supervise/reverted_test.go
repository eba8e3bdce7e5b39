//go:build postgres

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// The volume of a primary is put back to a moment since its last checkpoint, of which the Lease tells, while it holds the lease.
func TestAPrimaryWhoseVolumeWasPutBackGivesTheLeaseToWhoHasWhatItLost(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	for name, c := range subset.Of(1, map[string]struct {
		synchronous *agentapi.Synchronous
		copies      func(two *pair) (pgdata string)
	}{
		"synchronous":            {&agentapi.Synchronous{Number: 1, Required: true}, (*pair).copyRunning},
		"asynchronous":           {nil, (*pair).copyRunning},
		"to an orderly shutdown": {nil, (*pair).copyStopped}, // no checkpoint is written when the server starts after that
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			two, _ := newPair(t)
			config := two.first.config
			config.Synchronous = c.synchronous
			two.first.configure(config)
			two.second.configure(config)
			two.run()
			two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
			two.first.sql("CREATE TABLE public.t (n int)")
			pgdata := c.copies(two)
			two.first.sql("INSERT INTO public.t SELECT generate_series(1, 1000)")
			written := two.first.sql("SELECT pg_current_wal_flush_lsn()::text")
			two.second.await("receive the rows", func() bool {
				return two.second.sql(fmt.Sprintf("SELECT (pg_last_wal_receive_lsn() >= '%s')::text", written)) == "true"
			})

			pid := two.first.pid()
			// The server continues in its folder, which has another name now.
			if err := errors.Join(os.Rename(pgdata, pgdata+".new"), os.Rename(pgdata+".old", pgdata)); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			two.second.awaitStatus("take over", func(s agentapi.Status) bool { return s.Role == rolePrimary })
			if got := two.second.sql("SELECT count(*)::text FROM public.t"); got != "1000" {
				t.Errorf("of 1000 rows that were acknowledged there are %s", got)
			}
			two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
			two.first.await("have the rows", func() bool { return two.first.sql("SELECT count(*)::text FROM public.t") == "1000" })
		})
	}
}

// copyRunning keeps a copy of the data of the first, as it is right after a checkpoint.
func (c *pair) copyRunning() (pgdata string) {
	c.first.t.Helper()
	c.first.sql("CHECKPOINT")
	return c.first.copyData()
}

// copyStopped keeps one of when both were stopped in order, and starts them again.
func (c *pair) copyStopped() (pgdata string) {
	c.first.t.Helper()
	for _, p := range []*pod{c.second, c.first} {
		if err := p.terminate(time.Minute); err != nil {
			c.first.t.Fatal(err)
		}
	}
	pgdata = c.first.copyData()
	c.run()
	c.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	return pgdata
}

// copyData copies the data directory to one beside it.
func (p *pod) copyData() (pgdata string) {
	p.t.Helper()
	pgdata, err := filepath.EvalSymlinks(filepath.Join(string(p.Volume), "current", "pgdata"))
	if err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", pgdata, pgdata+".old").CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return pgdata
}
