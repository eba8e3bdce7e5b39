// Package tablesjob brings tables, schemas or a database back into a running cluster, from a temporary copy that a backup was restored to. All of it
// is one transaction of a role that is no superuser, and nothing that exists is changed.
package tablesjob

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
)

// Reasons of Jobs that could not restore, which are those of the Restore.
const (
	ReasonObjectExists   = "ObjectExists"
	ReasonObjectMissing  = "ObjectMissing"
	ReasonRoleUnsuitable = "RoleUnsuitable"
	ReasonNotCopied      = "NotCopied"
	ReasonBadImage       = "BadImage"
)

// Phases of the work.
const (
	phaseChecking = "CheckingTarget"
	phaseCopying  = "Copying"
	phaseIndexing = "BuildingIndexes"
)

// most is how many names go into a result, and mostText how long each may be, so that all of it fits into a termination message.
const (
	mostRestored    = 20
	mostNotRestored = 10
	mostText        = 120
)

// Worker restores into one cluster.
type Worker struct {
	Task agentapi.TablesJob
	// BinDir has pg_dump and pg_restore, of the version of the running cluster.
	BinDir string
	// Target is the running cluster, and Copy the temporary one.
	Target, Copy Side
	// Database of the copy, and IntoDatabase of the running cluster.
	Database, IntoDatabase string
	// Scratch is a folder for the schema.
	Scratch string
	Report  func(job.Progress)
	Now     func() time.Time
	// Attempts at what a failover or a lock has ended, Patience with a server that can't be reached, and Pause between two tries.
	Attempts        int
	Patience, Pause time.Duration
	// LockTimeout of the running cluster's session.
	LockTimeout time.Duration
	// unknown: the answer to COMMIT was lost, and nobody has looked since.
	unknown bool
	// Step is called between the steps of the transaction; nil: nobody is. Tests end the work there.
	Step func(name string) error
}

// Run restores, or only checks.
func (w *Worker) Run(ctx context.Context) (agentapi.TablesResult, error) {
	begun := w.Now()
	w.Report(job.Progress{Phase: phaseChecking})
	for attempt := 1; ; attempt++ {
		result, err := w.attempt(ctx)
		if err == nil {
			result.Seconds = int64(w.Now().Sub(begun).Seconds())
			return result, nil
		}
		if ctx.Err() != nil || attempt >= w.Attempts || !w.unknown && !passes(err) {
			return agentapi.TablesResult{}, w.explain(err)
		}
		slog.Warn("the attempt has failed, and begins again", "attempt", attempt, "error", said(err))
		if err := w.rest(ctx); err != nil {
			return agentapi.TablesResult{}, err
		}
	}
}

func (w *Worker) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(w.Pause):
		return nil
	}
}

// attempt is one transaction, unless a former one was committed.
func (w *Worker) attempt(ctx context.Context) (agentapi.TablesResult, error) {
	target, err := w.open(ctx, w.Target, w.IntoDatabase)
	if err != nil {
		return agentapi.TablesResult{}, err
	}
	defer target.Close(context.WithoutCancel(ctx))
	if err := awaitPrimary(ctx, target); err != nil {
		return agentapi.TablesResult{}, err
	}
	role, err := suitableRole(ctx, target)
	if err != nil {
		return agentapi.TablesResult{}, err
	}
	if w.Task.CheckOnly {
		return agentapi.TablesResult{Checked: true, Role: role, Database: w.IntoDatabase}, w.checkNames(ctx, target)
	}
	source, err := w.open(ctx, w.Copy, w.Database)
	if err != nil {
		return agentapi.TablesResult{}, err
	}
	defer source.Close(context.WithoutCancel(ctx))
	return w.restore(ctx, &session{source: source, target: target, role: role})
}

// session are the two connections of an attempt.
type session struct {
	source, target *pgx.Conn
	role           string
}

func (w *Worker) restore(ctx context.Context, s *session) (agentapi.TablesResult, error) {
	result := agentapi.TablesResult{Role: s.role, Database: w.IntoDatabase}
	if err := w.choose(ctx, s.source); err != nil {
		return result, err
	}
	wanted, err := w.wanted(ctx, s.source)
	if err != nil {
		return result, err
	}
	done, err := w.committed(ctx, s, &result)
	if err == nil && !done {
		err = w.transfer(ctx, s, wanted, &result)
	}
	if err != nil {
		return result, err
	}
	for _, r := range wanted[:min(len(wanted), mostRestored)] {
		result.Restored = append(result.Restored, job.Shorten(r.String(), mostText))
	}
	result.RestoredCount = len(wanted)
	if result.NotRestored, err = w.notRestored(ctx, s); err != nil {
		slog.Warn("what referred to the restored objects is not known", "error", said(err)) // everything is restored all the same
	}
	return result, nil
}

// transfer compares and writes. Where that is refused, a former attempt may have been committed just now.
func (w *Worker) transfer(ctx context.Context, s *session, wanted []relation, result *agentapi.TablesResult) error {
	err := w.compare(ctx, s, wanted)
	if err == nil {
		err = w.write(ctx, s, wanted, result)
	}
	if err == nil {
		return nil
	}
	if done, look := w.committed(ctx, s, result); look == nil && done {
		return nil
	}
	return err
}

func (w *Worker) step(name string) error {
	if w.Step == nil {
		return nil
	}
	return w.Step(name)
}

// schema that the Restore has for itself in the copy. Nobody could know its name when the backup was taken.
func (w *Worker) schema() string {
	return "howdah_" + strings.ReplaceAll(w.Task.Object.UID, "-", "")
}
