//go:build postgres

package supervise

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// A replica receives WAL much faster than one process replays it, so there may be much to replay when it is promoted. One that is killed meanwhile
// begins from its last restartpoint, and would never get further.
func TestAPromotionMayTakeAsLongAsItReplaysSomething(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.second.still = 2 * time.Second
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	pid, err := strconv.Atoi(two.second.sql("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'startup'"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(throttle(t, pid))
	two.first.sql("CREATE TABLE public.t AS SELECT n FROM generate_series(1, 1500000) AS n")
	written := two.first.sql("SELECT pg_current_wal_flush_lsn()::text")
	two.second.await("receive the rows", func() bool {
		return two.second.sql(fmt.Sprintf("SELECT (pg_last_wal_receive_lsn() >= '%s')::text", written)) == "true"
	})
	began, server := time.Now(), two.second.pid()
	handedOver := make(chan error, 1)
	go func() { handedOver <- two.first.terminate(2 * time.Minute) }() // which may last until the other one has taken over
	two.second.awaitStatus("say what is waited for", func(s agentapi.Status) bool { return s.Message == promotingMessage })
	two.second.awaitFor(time.Minute, "take over", func() bool { return two.second.agent.Status().Role == rolePrimary })
	t.Logf("the promotion took %v", time.Since(began))
	if err := <-handedOver; err != nil {
		t.Error(err)
	}
	if message := two.second.agent.Status().Message; strings.HasPrefix(message, promotingMessage) {
		t.Errorf("it still says: %s", message)
	}
	if two.second.pid() != server {
		t.Error("PostgreSQL was restarted while it replayed")
	}
	if rows := two.second.sql("SELECT count(*)::text FROM public.t"); rows != "1500000" {
		t.Errorf("of 1500000 rows that were acknowledged there are %s", rows)
	}
}

// throttle lets a process run for a twentieth of the time only, until the returned function is called.
func throttle(t *testing.T, pid int) (end func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer syscall.Kill(pid, syscall.SIGCONT)
		for pause := 190 * time.Millisecond; ; pause = 200*time.Millisecond - pause {
			signal := syscall.SIGSTOP
			if pause < 100*time.Millisecond {
				signal = syscall.SIGCONT
			}
			if syscall.Kill(pid, signal) != nil {
				return // it has ended
			}
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
