//go:build postgres

package supervise

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// Only the checkpointer makes commits wait, when it comes to read the setting. Until then the Lease must not say that they do.
func TestTheLeaseNamesNoQuorumBeforeCommitsWait(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	var before int
	err := two.first.agent.server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		ask := func(query string) (answer string) {
			if err := conn.QueryRow(t.Context(), query).Scan(&answer); err != nil {
				t.Fatal(err)
			}
			return answer
		}
		checkpointer, err := strconv.Atoi(ask("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
		if err != nil {
			return err
		}
		defer syscall.Kill(checkpointer, syscall.SIGCONT)
		if err := syscall.Kill(checkpointer, syscall.SIGSTOP); err != nil {
			return err
		}
		before = len(two.lease.annotations())
		config := two.first.config
		config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
		two.first.configure(config)
		two.second.configure(config)
		two.first.await("read the setting", func() bool { return ask("SHOW synchronous_standby_names") != "" })
		two.first.await("renew the Lease some times", func() bool { return len(two.lease.annotations()) > before+4 })
		for _, written := range two.lease.annotations()[before:] {
			if strings.Contains(written, `"quorum":1`) {
				t.Errorf("no commit waits yet, and the Lease says %s", written)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	two.first.awaitStatus("have a quorum once the checkpointer continues", func(s agentapi.Status) bool { return s.Election.Quorum == 1 })
}

// A session that reads at a replica is still there when the replica is promoted, and the checkpointer may be busy with a restartpoint.
func TestCommitsOfSessionsThatCameBeforeAPromotionWait(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	config := two.first.config
	config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
	two.first.configure(config)
	two.second.configure(config)
	two.run()
	two.first.awaitStatus("have a quorum", func(s agentapi.Status) bool { return s.Election != nil && s.Election.Quorum == 1 })
	err := two.second.agent.server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		ask := func(query string) (answer string) {
			if err := conn.QueryRow(t.Context(), query).Scan(&answer); err != nil {
				t.Fatal(err)
			}
			return answer
		}
		checkpointer, err := strconv.Atoi(ask("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
		if err != nil {
			return err
		}
		defer syscall.Kill(checkpointer, syscall.SIGCONT)
		if err := syscall.Kill(checkpointer, syscall.SIGSTOP); err != nil {
			return err
		}
		two.first.stop()
		two.second.await("be promoted", func() bool { return ask("SELECT pg_is_in_recovery()::text") == "false" })
		limited, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := conn.Exec(limited, "SET synchronous_commit = on; CREATE TABLE public.inside (n int)"); err == nil {
			t.Error("it was committed while no replica has it")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
