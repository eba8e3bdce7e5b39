package importjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// Phases of an import that follows its source.
const (
	phaseFollowing = "Following"
	phaseComparing = "Comparing"
)

// mostProblems are named; the schema has the same limit.
const mostProblems = 16

// Following is v1alpha1.OnlineImportStatus, written here so that the agent links no Kubernetes types.
type Following struct {
	State         string   `json:"state"`
	LagBytes      int64    `json:"lagBytes,omitempty"`
	RetainedBytes int64    `json:"retainedBytes,omitempty"`
	ComparedRows  int64    `json:"comparedRows,omitempty"`
	Problems      []string `json:"problems,omitempty"`
}

// States of it.
const (
	StateCopying     = "Copying"
	StateFollowing   = "Following"
	StateCuttingOver = "CuttingOver"
	StateCutOver     = "CutOver"
)

// FollowSettings of a server of this major version that follows: what it has confirmed to the source must survive. After the cutover nothing is
// applied any more.
func FollowSettings(major int, copied Copied) string {
	workers := mostOnline + 4
	if copied.CutOver {
		workers = 0
	}
	text := fmt.Sprintf("-c max_logical_replication_workers=%d ", workers) + "-c wal_level=minimal -c max_wal_senders=0 -c archive_mode=off -c max_worker_processes=80 " +
		"-c max_replication_slots=64 -c wal_receiver_status_interval=1s -c wal_retrieve_retry_interval=1s -c log_min_error_statement=panic -c log_checkpoints=off"
	if major >= 18 {
		text += " -c max_active_replication_origins=64"
	}
	return text
}

// follower applies what comes from the source, until the cutover.
type follower struct {
	*Worker
	source *source
	copied Copied
	wanted agentapi.ImportWanted
	said   Following
	looks  int
	// differences of tables, as the last comparison has found them.
	differences []string
	// shared is when others had a session last as the role that we log in as; zero: they had none during a cutover.
	shared time.Time
	// resumed: the volume has all that the source was told is durable, and the subscriptions run.
	resumed bool
	log     int64 // how long the server's log was before subscriptions had the connection of this pod
	record  func(Copied) error
}

// Follow applies what comes from the source until the cutover is requested and nothing is missing any more. The decision is recorded before
// the subscriptions are dropped. It may be repeated whenever it has ended early. ErrBeginAgain: the copy is of no use.
func (w *Worker) Follow(ctx context.Context, copied Copied, record func(Copied) error) error {
	source, err := openSource(w.Task.Source, w.Secrets, w.Scratch)
	if err != nil {
		return err
	}
	f := &follower{Worker: w, source: source, copied: copied, record: record}
	if !f.copied.CutOver {
		if err := f.untilCutover(ctx); err != nil {
			return err
		}
		f.copied.CutOver = true
		if err := f.record(f.copied); err != nil {
			return fmt.Errorf("record the cutover: %w", err)
		}
	}
	return f.end(ctx)
}

// ErrBeginAgain is in the error of an import that can't continue with its copy.
var ErrBeginAgain = errors.New("the import has to begin again")

// lost ends an import that can't continue. What is left on the source is dropped at once, where it can be.
func (f *follower) lost(ctx context.Context, format string, args ...any) error {
	f.releaseFailed(ctx)
	return job.Final(ReasonSourceLost, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrBeginAgain))
}

func (f *follower) name(database string) string { return f.Task.Online.Name(database) }

// untilCutover returns when nothing is missing and a person wants the cutover.
func (f *follower) untilCutover(ctx context.Context) error {
	for {
		done, err := f.pass(ctx, f.wanted.Cutover)
		if err != nil {
			return err
		}
		asked := f.wanted.Cutover
		f.report(ctx)
		if !asked && f.wanted.Cutover { // it is said before anything is checked: whoever takes the request back sees by the state whether it was acted on
			f.said.State = StateCuttingOver
			f.report(ctx)
			continue
		}
		if done && f.wanted.Cutover {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.pause()):
		}
	}
}

// pause between two looks.
func (f *follower) pause() time.Duration { return cmp.Or(f.Pause, usualPause) }

// report says how it follows, and learns what is wanted. Without an answer nobody wants the cutover, as it may have been taken back, and the
// limit is the last one that was heard of.
func (f *follower) report(ctx context.Context) {
	wanted, err := f.Following(ctx, f.said)
	if err != nil {
		slog.Warn("how the import follows can't be reported, and nobody can request the cutover", "error", err)
		wanted = agentapi.ImportWanted{MaxRetainedBytes: f.wanted.MaxRetainedBytes}
	}
	f.wanted = wanted
}

// pass looks at both sides once. done: nothing is missing, and the source is closed.
func (f *follower) pass(ctx context.Context, cutover bool) (done bool, err error) {
	f.said = Following{State: StateFollowing}
	if cutover {
		f.said.State = StateCuttingOver
	}
	if err := f.look(ctx); err != nil {
		return false, err
	}
	f.progress()
	if !cutover || len(f.said.Problems) > 0 {
		return false, nil
	}
	if err := f.checkCutover(ctx); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		f.problem("The cutover was not possible: %v.", err)
	}
	return len(f.said.Problems) == 0, nil
}

func (f *follower) problem(format string, args ...any) {
	if len(f.said.Problems) < mostProblems {
		f.said.Problems = append(f.said.Problems, fmt.Sprintf(format, args...))
	}
}

func (f *follower) progress() {
	message := fmt.Sprintf("%d databases follow the source, and lag by %s of WAL.", len(f.copied.Databases), size(f.said.LagBytes))
	if len(f.said.Problems) > 0 {
		message = f.said.Problems[0]
	}
	f.Report(job.Progress{Phase: phaseFollowing, Message: message})
}

// resume lets the subscriptions run, if the volume has what the source was told is durable. Otherwise it was rolled back: the slots are ahead of
// it, and PostgreSQL would skip what is between without a word.
func (f *follower) resume(ctx context.Context) error {
	if f.resumed {
		return nil
	}
	name := f.name(f.copied.Databases[0])
	mark, err := f.source.mark(ctx, f.copied.Databases[0], name)
	if err != nil {
		return f.away(ctx, err)
	}
	if !f.copied.reaches(mark) {
		return f.lost(ctx, "the volume lacks changes that it had already, because it was restored from a snapshot, or the publication %s was changed on the source", name)
	}
	if err := f.enable(ctx); err != nil {
		return err
	}
	f.resumed = true
	return nil
}

// advance counts a look, on the volume first and then on the source: so a volume that has counted fewer was rolled back.
func (f *follower) advance(ctx context.Context) error {
	f.copied.Looks++
	if err := f.record(f.copied); err != nil {
		return fmt.Errorf("record how far the import is: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	database := f.copied.Databases[0]
	if err := f.source.write(limited, database, commentOn(f.name(database), f.copied.mark())); err != nil {
		f.problem("The source can't be written to: %v.", local.Plain(err))
	}
	return nil
}

// enable lets the subscriptions run. Where they find files of the source is another place in each pod.
func (f *follower) enable(ctx context.Context) error {
	for _, database := range f.copied.Databases {
		alter := "ALTER SUBSCRIPTION " + quote(f.name(database))
		subscribed, err := f.subscribed(ctx, database)
		if err != nil {
			return err
		}
		if !subscribed {
			return f.lost(ctx, "database %s has no subscription", database)
		}
		if err := f.exec(ctx, database, alter+" CONNECTION "+postgres.QuoteLiteral(f.source.connInfo(database)), alter+" ENABLE"); err != nil {
			return fmt.Errorf("follow database %s of the source: %w", database, err)
		}
	}
	if info, err := os.Stat(f.serverLog()); err == nil {
		f.log = info.Size()
	}
	return nil
}

func (f *follower) subscribed(ctx context.Context, database string) (has bool, err error) {
	err = f.Target.With(ctx, database, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_subscription WHERE subname = $1)", f.name(database)).Scan(&has)
	})
	return has, err
}

// end drops the subscriptions, whose slots are dropped later, and gives roles and databases their settings.
func (f *follower) end(ctx context.Context) error {
	for _, database := range f.copied.Databases {
		subscribed, err := f.subscribed(ctx, database)
		if err != nil {
			return err
		}
		if !subscribed {
			continue
		}
		name := quote(f.name(database))
		err = f.exec(ctx, database, "ALTER SUBSCRIPTION "+name+" DISABLE",
			"BEGIN; ALTER SUBSCRIPTION "+name+" SET (slot_name = NONE); DROP SUBSCRIPTION "+name+"; COMMIT")
		if err != nil {
			return fmt.Errorf("end the subscription of database %s: %w", database, err)
		}
	}
	if err := f.settle(ctx, f.copied.Databases, f.copied.Settings, &f.copied.Found); err != nil {
		return err
	}
	if err := f.record(f.copied); err != nil { // with the warnings about settings
		return fmt.Errorf("record the end of the import: %w", err)
	}
	f.said.State, f.said.Problems = StateCutOver, nil
	if _, err := f.Following(ctx, f.said); err != nil {
		slog.Warn("the cutover can't be reported; it continues", "error", err)
	}
	return nil
}
