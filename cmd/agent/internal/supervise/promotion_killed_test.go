//go:build postgres

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// A promotion removes standby.signal before it writes the history of its timeline and records that timeline in pg_control. If its server is
// killed in between, PostgreSQL would continue the timeline that the former primary may continue as well. WAL of a timeline that was left is not
// archived, either.
func TestAPromotionThatWasKilledContinuesNoTimelineThatItLeft(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	for name, history := range map[string]bool{"before it has written the history": false, "after it has written the history": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, store := archiving(t)
			p.run()
			p.fill()
			if err := p.terminate(time.Minute); err != nil {
				t.Fatal(err)
			}
			end := p.killInRecovery()
			if history {
				p.write(filepath.Join(p.Volume.PGData(p.current()), "pg_wal", "00000002.history"), fmt.Sprintf("1\t%s\tno recovery target specified\n", end))
			}
			p.run()
			segment := p.fill()
			if strings.HasPrefix(segment, "00000001") {
				t.Errorf("it continues timeline 1 with %s", segment)
			}
			p.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive != nil && s.Archive.LastWAL >= segment })
			if _, _, err := wal.New(store).Get(t.Context(), p.lineage(), segment); err != nil {
				t.Errorf("%s, which was said to be archived: %v", segment, err)
			}
		})
	}
}

// killInRecovery leaves the data as a promotion does that is killed: no signal for a standby, and pg_control in archive recovery. It says where
// the WAL ends.
func (p *pod) killInRecovery() (end string) {
	p.t.Helper()
	pgdata := p.Volume.PGData(p.current())
	if err := settings.MarkStandby(pgdata); err != nil {
		p.t.Fatal(err)
	}
	installed := pgtest.Installed(p.t)
	bin := installed[len(installed)-1].BinDir
	conf := filepath.Join(p.t.TempDir(), "postgresql.conf")
	p.write(conf, "listen_addresses = ''\nunix_socket_directories = '"+p.SocketDir+"'\nshared_buffers = 16MB\nmax_connections = 500\nmax_worker_processes = 100\nmax_wal_senders = 50\n"+
		"max_locks_per_transaction = 200\nmax_prepared_transactions = 100\nhot_standby = on\n")
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", pgdata, "-c", "config_file="+conf)
	if err := server.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.await("recover", func() bool {
		out, err := exec.Command(filepath.Join(bin, "psql"), "--host", p.SocketDir, "--username", "postgres", "--no-psqlrc", "--tuples-only", "--no-align",
			"--command", "SELECT pg_last_wal_replay_lsn()").Output()
		end = strings.TrimSpace(string(out))
		return err == nil
	})
	if control, err := postgres.ReadControlData(p.t.Context(), postgres.Exec, bin, pgdata); err != nil || control.State != postgres.StateInArchiveRecovery {
		p.t.Fatalf("%+v, %v", control, err)
	}
	if err := server.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = server.Wait()
	if err := errors.Join(os.Remove(filepath.Join(pgdata, "standby.signal")), os.Remove(filepath.Join(pgdata, "postmaster.pid"))); err != nil {
		p.t.Fatal(err)
	}
	return end
}
