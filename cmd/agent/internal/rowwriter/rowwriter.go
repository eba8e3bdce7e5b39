// Package rowwriter is the judge of a failover drill, in a Job's pod: two clients write numbered rows through the Service of the primary,
// one over a connection that it keeps and one over a new connection for each row. What was acknowledged is compared with what is
// there in the end.
package rowwriter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// table is in the schema of the role.
const table = postgres.RoleFailoverDrill + ".acknowledged"

// enough rows of each client are acknowledged before the fault may be caused.
const enough = 10

// Reasons that the Job may end with.
const (
	ReasonUnreachable = "Unreachable"    // the primary could not be reached for too long before or after the writing
	ReasonSecondPod   = "WriterReplaced" // a former pod has written rows, and what it was told is not known
)

// Worker writes and counts.
type Worker struct {
	Connect func(context.Context) (*pgx.Conn, error)
	Report  func(job.Progress)
	// Stop is closed when there is nothing more to measure.
	Stop <-chan struct{}
	Now  func() time.Time
	// Pace is from one row of a client to its next.
	Pace time.Duration
	// Patience with a primary that can't be reached before or after the writing.
	Patience time.Duration
}

// Run writes until it is told to stop, and returns what it has measured.
func (w Worker) Run(ctx context.Context) (agentapi.FailoverDrillResult, error) {
	none := agentapi.FailoverDrillResult{}
	w.Report(job.Progress{Phase: agentapi.FailoverDrillConnecting})
	if err := w.insist(ctx, w.prepare); err != nil {
		return none, err
	}
	fresh := &client{name: "new", connect: w.Connect, now: w.Now}
	kept := &client{name: "kept", keep: true, connect: w.Connect, now: w.Now}
	w.write(ctx, fresh, kept)
	if err := ctx.Err(); err != nil {
		return none, err
	}
	rows, gap := fresh.measured()
	rowsKept, gapKept := kept.measured()
	result := agentapi.FailoverDrillResult{
		Acknowledged: rows + rowsKept, LongestGapMilliseconds: gap.Milliseconds(), LongestGapKeptMilliseconds: gapKept.Milliseconds(),
	}
	w.Report(job.Progress{Phase: agentapi.FailoverDrillCounting})
	err := w.insist(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		result.Lost = 0
		for _, c := range []*client{fresh, kept} {
			present, err := presentOf(ctx, conn, c.name)
			if err != nil {
				return err
			}
			result.Lost += c.lost(present)
		}
		return nil
	})
	return result, err
}

// write lets both clients write until the end, and reports how it goes.
func (w Worker) write(ctx context.Context, fresh, kept *client) {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	for _, c := range []*client{fresh, kept} {
		clients.Go(func() { c.run(ctx, w.Pace) })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.Report(progress(fresh, kept))
		select {
		case <-ctx.Done():
			return
		case <-w.Stop:
			return
		case <-tick.C:
		}
	}
}

func progress(fresh, kept *client) job.Progress {
	rows, gap := fresh.measured()
	rowsKept, gapKept := kept.measured()
	p := job.Progress{Phase: agentapi.FailoverDrillConnecting}
	if rows >= enough && rowsKept >= enough {
		p.Phase = agentapi.FailoverDrillWriting
	}
	p.Message = fmt.Sprintf("%d rows are acknowledged. The longest gap is %s on new connections and %s on a kept one.",
		rows+rowsKept, gap.Round(100*time.Millisecond), gapKept.Round(100*time.Millisecond))
	return p
}

// prepare creates the table. Rows in it are those of a former pod of this Job.
func (w Worker) prepare(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+" (client text, n bigint, PRIMARY KEY (client, n))"); err != nil {
		return err
	}
	var rows int64
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.count(*) FROM "+table).Scan(&rows); err != nil {
		return err
	}
	if rows > 0 {
		return job.Final(ReasonSecondPod, errors.New("another pod of this Job has written rows, and which of them were acknowledged is not known"))
	}
	return nil
}

func presentOf(ctx context.Context, conn *pgx.Conn, client string) (map[int64]bool, error) {
	rows, err := conn.Query(ctx, "SELECT n FROM "+table+" WHERE client = $1", client)
	if err != nil {
		return nil, err
	}
	present, n := map[int64]bool{}, int64(0)
	_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
		present[n] = true
		return nil
	})
	return present, err
}

// insist repeats something on new connections until it is done, for as long as patience lasts. A final failure is one at once.
func (w Worker) insist(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	until := w.Now().Add(w.Patience)
	for {
		err := w.once(ctx, do)
		failure := &job.Failure{}
		switch {
		case err == nil, ctx.Err() != nil, errors.As(err, &failure):
			return errors.Join(ctx.Err(), err)
		case w.Now().After(until):
			return job.Final(ReasonUnreachable, fmt.Errorf("the primary could not be used for %s: %w", w.Patience, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.Pace):
		}
	}
}

func (w Worker) once(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*attemptTime)
	defer cancel()
	conn, err := w.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(ctx, conn)
}
