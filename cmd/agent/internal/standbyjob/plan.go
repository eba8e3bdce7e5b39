package standbyjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

const (
	// usualNotice is how long another copy is announced before it is begun automatically.
	usualNotice = 10 * time.Minute
	// reinitEvery is how often that may be, and requestEvery if a person has requested it.
	reinitEvery  = 24 * time.Hour
	requestEvery = time.Hour
	// planEvery is how many pauses there are between two looks for a backup, which read the headers of all.
	planEvery = 30
	planTime  = time.Minute
)

// plan is for another copy of data that can't continue, or is to follow another lineage.
type plan struct {
	reason string // of a StandbyProblem; empty: none is needed, or it isn't wanted
	looked time.Time
	// since when it can be made; zero: it can't.
	since time.Time
	// chosen is what the copy is to be made from, and startsAt when; refused is why it can't be made now.
	chosen   record
	startsAt time.Time
	refused  string
}

// reinitReason is why another copy is to be made; empty: none is. Once a promotion was requested none is begun: what there is, counts.
func (l *look) reinitReason() string {
	switch {
	case l.record.Order != "" || l.record.Why != "" || l.store == nil:
		return ""
	case l.Task.Lineage != "" && l.Task.Lineage != l.record.Lineage:
		return agentapi.StandbySourceMoved
	case l.heard.Reinit != agentapi.StandbyReinitFromNewer:
		return ""
	case l.seen.diverged:
		return agentapi.StandbyDiverged
	case l.seen.missing(l.now()):
		return agentapi.StandbyWALMissing
	}
	return ""
}

// reinitDue says whether another copy is to be begun now. What it will be is known in time before, and shown.
func (l *look) reinitDue(ctx context.Context) bool {
	reason := l.reinitReason()
	if reason != l.plan.reason {
		l.plan = plan{reason: reason}
	}
	if reason == "" {
		return false
	}
	if l.plan.looked.IsZero() || l.now().Sub(l.plan.looked) >= planEvery*l.Pause {
		l.prepareReinit(ctx)
	}
	return !l.plan.since.IsZero() && !l.now().Before(l.plan.startsAt)
}

// prepareReinit looks for what another copy can be made from.
func (l *look) prepareReinit(ctx context.Context) {
	l.plan.looked = l.now()
	limited, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	chosen, err := l.chooseNext(limited)
	if err != nil {
		l.plan = plan{reason: l.plan.reason, looked: l.plan.looked, refused: explain(err)}
		return
	}
	if l.plan.since.IsZero() {
		l.plan.since = l.now()
	}
	l.plan.chosen, l.plan.refused, l.plan.startsAt = chosen, "", l.startsAt()
}

// startsAt is when another copy may begin: at once if a person has requested it by name, else after its announcement; and not often.
func (l *look) startsAt() time.Time {
	at, every := l.plan.since.Add(l.Notice), reinitEvery
	if l.plan.reason == agentapi.StandbySourceMoved {
		at, every = l.plan.since, requestEvery
	}
	if begun := l.record.Begun; begun != nil && begun.Add(every).After(at) {
		return begun.Add(every)
	}
	return at
}

// chooseNext is the record of another copy, if one can be made. It has to have more than this one has; if a person has named the lineage, it has to
// be one of the same cluster.
func (l *look) chooseNext(ctx context.Context) (record, error) {
	if _, has, err := generation.WAL(l.Volume).Root(); err != nil || has {
		return record{}, cmp.Or(err, errWALVolume)
	}
	next := record{Cluster: l.record.Cluster, Lineage: l.record.Lineage, Why: l.plan.reason}
	switch {
	case l.plan.reason == agentapi.StandbySourceMoved:
		next.Lineage = l.Task.Lineage
		if err := l.mayFollow(ctx, next.Lineage); err != nil {
			return record{}, err
		}
	case !l.seen.positioned:
		return record{}, errors.New("it isn't known yet how much WAL this copy has replayed, because PostgreSQL doesn't answer, so it is kept")
	default:
		next.Beyond = l.seen.replayed
	}
	maker := l.beside(next)
	chosen, err := maker.choose(ctx)
	if err != nil {
		return record{}, err
	}
	header, err := backup.ReadOutline(ctx, l.store, chosen.Lineage, chosen.Backup)
	if err != nil {
		return record{}, err
	}
	return chosen, maker.checkRoom(ctx, chosen, header.Totals.LogicalBytes)
}

// errWALVolume: a link leads from the data to the folder of its WAL, by the name of the data generation, so copies can't be exchanged.
var errWALVolume = errors.New("a copy can't be replaced while WAL is on a volume of its own (spec.storage.wal), so it is kept: " +
	"delete this PostgresCluster, and create it again")

// mayFollow says why a lineage that a person has named can't be followed by this standby.
func (l *look) mayFollow(ctx context.Context, lineage string) error {
	const anew = "delete this PostgresCluster, and create it again with that lineage"
	if l.record.hasLeft(lineage) {
		return fmt.Errorf("spec.standby.source.repository.lineage names %s, which this standby has followed before it followed %s, so it may come from an old manifest: name the lineage that the source archives to now, or %s",
			lineage, l.record.Lineage, anew)
	}
	ours, err := layout.ReadLineage(ctx, l.store, l.record.Lineage)
	if err != nil {
		return fmt.Errorf("lineage %s, which is followed: %w", l.record.Lineage, err)
	}
	other, err := layout.ReadLineage(ctx, l.store, lineage)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("the repository has no lineage %s, which spec.standby.source.repository.lineage names", lineage)
	case err != nil:
		return fmt.Errorf("lineage %s: %w", lineage, err)
	case other.PGMajor != l.MajorVersion:
		return fmt.Errorf("lineage %s is of PostgreSQL %d, and this cluster of %d: %s and spec.version: %[2]d", lineage, other.PGMajor, l.MajorVersion, anew)
	case other.SystemIdentifier != ours.SystemIdentifier || other.Writer.UID != ours.Writer.UID:
		return fmt.Errorf("lineage %s is of another cluster (%s/%s) than %s (%s/%s), which is followed: %s",
			lineage, other.Writer.Namespace, other.Writer.Name, l.record.Lineage, ours.Writer.Namespace, ours.Writer.Name, anew)
	}
	return nil
}

// shown is what a report says of it; nil: nothing is planned.
func (p plan) shown() *agentapi.StandbyReinit {
	if p.since.IsZero() {
		return nil
	}
	return p.chosen.shown(agentapi.StandbyReinitPlanned, p.startsAt)
}

// shown is what a report says of another copy.
func (r record) shown(stage agentapi.StandbyReinitStage, at time.Time) *agentapi.StandbyReinit {
	shown := &agentapi.StandbyReinit{Stage: stage, Reason: r.Why, Lineage: r.Lineage, Backup: r.Backup, StartsAt: at.UTC().Truncate(time.Second)}
	if r.Beyond != 0 {
		shown.Beyond = r.Beyond.String()
	}
	return shown
}

// problems say what will be done, or why it can't be.
func (p plan) problems() []agentapi.StandbyProblem {
	var message string
	switch {
	case p.refused == "" && p.since.IsZero():
		return nil
	case p.refused != "":
		message = "Another copy can't be made: " + p.refused + ". Nothing is deleted."
	case p.reason == agentapi.StandbySourceMoved:
		message = fmt.Sprintf("At %s, backup %s of lineage %s begins to be restored beside this copy, which follows another lineage.", p.startsAt.UTC().Format(time.RFC3339), p.chosen.Backup, p.chosen.Lineage)
	default:
		message = fmt.Sprintf("At %s, backup %s, which has more than this copy, begins to be restored beside it. To prevent that, set spec.standby.reinit: Never.",
			p.startsAt.UTC().Format(time.RFC3339), p.chosen.Backup)
	}
	return []agentapi.StandbyProblem{{Reason: agentapi.StandbyReinitializing, Message: message}}
}
