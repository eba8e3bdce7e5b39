package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

// How another copy ended.
var (
	errCaughtUp = errors.New("the new copy has more than the current one")
	errUnwanted = errors.New("the new copy is not wanted any more")
)

// proceed follows the source with the current copy, or makes another one, if that was begun.
func (w *Worker) proceed(ctx context.Context) error {
	next, err := readRecord(w.Volume, w.copies().next())
	if err != nil { // it was not whole in any case
		w.Log.Warn("The record of another copy can't be read, so that copy is removed", "error", err)
		next = record{}
	}
	if w.needless(next) != "" {
		if err := w.copies().remove(w.copies().next()); err != nil {
			return err
		}
		next = record{}
	}
	if next.Why != "" {
		return (&reinit{present: w, maker: w.beside(next)}).run(ctx)
	}
	if err = w.follow(ctx); errors.Is(err, errEnough) && ctx.Err() == nil {
		return nil
	}
	return err
}

func (w *Worker) copies() copies { return copies{w.Volume, w.DataGeneration} }

// needless says why another copy that was begun is not to be continued; empty: it is. That nobody can be heard is no reason.
func (w *Worker) needless(next record) string {
	switch {
	case next.Cluster != w.record.Cluster:
		return "it is of another cluster"
	case w.record.Order == agentapi.PromoteImmediately:
		return "the current copy was requested to be promoted immediately"
	case next.Why == agentapi.StandbySourceMoved && w.Task.Lineage != next.Lineage:
		return "spec.standby.source.repository.lineage names another lineage"
	case next.Why != agentapi.StandbySourceMoved && w.heard.Cluster != "" && w.heard.Reinit != agentapi.StandbyReinitFromNewer:
		return "spec.standby.reinit is not FromNewerBackup any more"
	}
	return ""
}

// beginReinit records that another copy is begun. Its error is errEnough once it is.
func (w *Worker) beginReinit(look *look) error {
	chosen, begun, now := look.plan.chosen, w.record, look.now().UTC()
	begun.Begun = &now
	if err := w.note(begun); err != nil {
		return err
	}
	if chosen.Begun = &now; chosen.Beyond != 0 {
		chosen.Beyond = max(chosen.Beyond, look.seen.replayed)
	}
	if err := w.beside(chosen).begin(); err != nil {
		return err
	}
	w.Log.Info("Another copy is made beside the current one", "reason", chosen.Why, "lineage", chosen.Lineage, "backup", chosen.Backup, "beyond", chosen.Beyond)
	return errEnough
}

// beside is the worker of another copy.
func (w *Worker) beside(next record) *Worker {
	maker := &Worker{Options: w.Options, Standby: w.Standby, store: w.store, record: next, report: agentapi.StandbyReport{Stage: next.stage()}}
	maker.DataGeneration, maker.Task.Lineage = w.copies().next(), next.Lineage
	return maker
}

// reinit makes another copy, and replaces the current one with it once it has more. The server of that one doesn't run meanwhile.
type reinit struct {
	present, maker *Worker
	cancel         context.CancelCauseFunc
}

// run returns nil once the copies were exchanged, and if the new one is not wanted any more.
func (r *reinit) run(ctx context.Context) error {
	making, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.cancel = cancel
	r.maker.Exchange, r.maker.until = r.relay, func(s seen) error { return complete(r.maker.record, s, time.Now()) }
	err := r.make(making)
	switch {
	case errors.Is(err, errCaughtUp):
		return r.replace()
	case errors.Is(context.Cause(making), errUnwanted), errors.Is(err, errUnwanted):
		r.present.Log.Info("Another copy is removed before it was complete", "reason", errors.Join(context.Cause(making), err))
		return r.present.copies().remove(r.present.copies().next())
	}
	return err
}

// make always returns an error: errCaughtUp is the good one.
func (r *reinit) make(ctx context.Context) error {
	if err := r.maker.fill(ctx); err != nil {
		return err
	}
	if err := r.sameDatabase(ctx); err != nil {
		return err
	}
	return r.maker.follow(ctx)
}

// errOlder: no backup has more than the current copy.
var errOlder = errors.New("so this copy is kept: create a Backup of the source")

// hopeless says whether trying to restore the same again won't help.
func hopeless(err error) bool {
	failure := &job.Failure{}
	return errors.As(err, &failure) && failure.Final || errors.Is(err, backup.ErrCorrupt) || errors.Is(err, backup.ErrFormat) || errors.Is(err, errOlder)
}

// complete says whether a new copy may replace the current one, by what was seen of it: errCaughtUp if so, errUnwanted if it never will.
func complete(r record, s seen, now time.Time) error {
	switch {
	case s.connected && !s.diverged && s.replayed >= r.Beyond:
		return errors.Join(errEnough, errCaughtUp)
	case s.diverged || s.missing(now):
		return fmt.Errorf("%w, because it can't continue either: %w", errEnough, errUnwanted)
	}
	return nil
}

// sameDatabase refuses data of another database, whatever the repository says of it.
func (r *reinit) sameDatabase(ctx context.Context) error {
	ours, err := r.present.control(ctx)
	if err != nil {
		return err
	}
	other, err := r.maker.control(ctx)
	if err != nil {
		return err
	}
	if ours.SystemIdentifier != other.SystemIdentifier {
		return fmt.Errorf("%w, because its system identifier is %d, and that of the current copy %d", errUnwanted, other.SystemIdentifier, ours.SystemIdentifier)
	}
	return nil
}

// relay reports how far the new copy is, as the current copy, and hears what is wanted of that. Of the new one nothing is.
func (r *reinit) relay(ctx context.Context, said agentapi.StandbyReport) (agentapi.StandbyWanted, error) {
	made, stage, at := r.maker.record, agentapi.StandbyReinitRestoring, time.Time{}
	if made.Restored {
		stage = agentapi.StandbyReinitCatchingUp
	}
	if made.Begun != nil {
		at = *made.Begun
	}
	r.present.report.Reinit = made.shown(stage, at)
	r.present.exchange(ctx, append([]agentapi.StandbyProblem{{Reason: agentapi.StandbyReinitializing, Message: r.message(said)}}, said.Problems...)...)
	if why := r.present.needless(made); why != "" {
		r.cancel(fmt.Errorf("%w, because %s", errUnwanted, why))
	}
	return agentapi.StandbyWanted{}, nil
}

// message says what is made, for a person.
func (r *reinit) message(said agentapi.StandbyReport) string {
	made, until := r.maker.record, "it is consistent"
	if made.Beyond != 0 {
		until = fmt.Sprintf("it has replayed WAL up to LSN %s", made.Beyond)
	}
	message := fmt.Sprintf("Backup %s of lineage %s is being restored beside the data (%s), which is kept until the new copy is complete: when %s", made.Backup, made.Lineage, made.Why, until)
	if made.Restored {
		message = fmt.Sprintf("The copy from backup %s of lineage %s replays WAL (%s), and replaces the other one when %s", made.Backup, made.Lineage, made.Why, until)
		if lsn, err := postgres.ParseLSN(said.Replayed); err == nil {
			message += fmt.Sprintf("; it is at %s", lsn)
		}
	}
	if r.present.record.Order != "" {
		return message + ". The promotion waits for that. To promote the current data instead, set spec.standby.promote: Immediately."
	}
	return message + "."
}

// replace has the new copy be the current one. The other one is removed only after that.
func (r *reinit) replace() error {
	w := r.present
	next := w.record.successor(r.maker.record, time.Now())
	if err := r.maker.note(next); err != nil {
		return err
	}
	if err := w.copies().exchange(); err != nil {
		return err
	}
	w.Log.Info("The new copy has replaced the one that there was", "lineage", next.Lineage, "backup", next.Backup)
	w.record, w.report.Reinit, w.astray = next, nil, false
	return nil
}
