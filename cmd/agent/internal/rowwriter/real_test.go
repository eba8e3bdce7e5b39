//go:build postgres

package rowwriter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestAnOutageIsMeasuredAndLostRowsAreCounted kills a server, starts it again after a while, and takes rows away that were acknowledged.
func TestAnOutageIsMeasuredAndLostRowsAreCounted(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{HBA: "local all all trust\n"})
	server.SQL("CREATE ROLE " + postgres.RoleFailoverDrill + " LOGIN; CREATE SCHEMA " + postgres.RoleFailoverDrill + " AUTHORIZATION " + postgres.RoleFailoverDrill)
	stop, phases := make(chan struct{}), make(chan string, 1000)
	worker := Worker{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, "host="+server.SocketDir+" dbname=postgres user="+postgres.RoleFailoverDrill)
		},
		Report: func(p job.Progress) { phases <- p.Phase }, Stop: stop, Now: time.Now, Pace: 10 * time.Millisecond, Patience: 10 * time.Second,
	}
	type end struct {
		result agentapi.FailoverDrillResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		result, err := worker.Run(t.Context())
		ended <- end{result, err}
	}()
	for phase := ""; phase != agentapi.FailoverDrillWriting; {
		select {
		case phase = <-phases:
		case e := <-ended:
			t.Fatalf("%+v", e)
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing is written")
		}
	}
	const outage = 1500 * time.Millisecond
	server.Kill()
	time.Sleep(outage)
	server.Start()
	server.SQL("DELETE FROM " + table + " WHERE n <= 3")
	time.Sleep(time.Second)
	close(stop)
	e := <-ended
	if r := e.result; e.err != nil || r.Lost != 6 || r.Acknowledged < 30 || r.LongestGapMilliseconds < outage.Milliseconds() || r.LongestGapKeptMilliseconds < outage.Milliseconds() {
		t.Errorf("%+v", e)
	}

	_, err := worker.Run(t.Context())
	if failure := (*job.Failure)(nil); !errors.As(err, &failure) || !failure.Final || failure.Reason != ReasonSecondPod {
		t.Errorf("a second pod continues: %v", err)
	}
	gone := worker
	gone.Patience, gone.Connect = 50*time.Millisecond, func(context.Context) (*pgx.Conn, error) { return nil, errors.New("refused") }
	if _, err := gone.Run(t.Context()); err == nil || !errors.As(err, new(*job.Failure)) {
		t.Errorf("it waits for ever: %v", err)
	}
}
