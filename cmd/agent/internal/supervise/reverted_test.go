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

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// The volume of a primary is put back to a moment since its last checkpoint, of which the Lease tells, while it holds the lease.
func TestAPrimaryWhoseVolumeWasPutBackGivesTheLeaseToWhoHasWhatItLost(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	for name, synchronous := range subset.Of(1, map[string]*agentapi.Synchronous{"synchronous": {Number: 1, Required: true}, "asynchronous": nil}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			two, _ := newPair(t)
			config := two.first.config
			config.Synchronous = synchronous
			two.first.configure(config)
			two.second.configure(config)
			two.run()
			two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
			two.first.sql("CREATE TABLE public.t (n int)")
			two.first.sql("CHECKPOINT")
			pgdata, err := filepath.EvalSymlinks(filepath.Join(string(two.first.Volume), "current", "pgdata"))
			if err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cp", "-a", pgdata, pgdata+".old").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
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
