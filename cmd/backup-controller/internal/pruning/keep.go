package pruning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/catalogue"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// rules say what is removed from the lineages of a repository, and when.
type rules struct {
	policy retention.Policy
	notice notice
	idle   bool
}

// keep removes, of every lineage that is ours, what the policy doesn't keep, and what was left by who was killed.
func (r *run) keep(ctx context.Context) error {
	idle := r.repo.Spec.ReadOnly || r.repo.Spec.Retention != nil && r.repo.Spec.Retention.DryRun
	rules := rules{policy: policyOf(r.repo.Spec.Retention), notice: noticeOf(r.repo, r.now), idle: idle}
	r.shows, r.awaited = map[v1alpha1.FoundBackup]bool{}, map[string]int{}
	r.result.policy, r.result.since = rules.notice.policy, rules.notice.since
	for _, l := range r.inTurn() {
		err := r.keepLineage(ctx, l, rules)
		switch {
		case errors.Is(err, objstore.ErrLocked):
			r.waitFor("Some data in lineage %s that no rule keeps can't be deleted yet. %s", l.Lineage.Lineage, objstore.Explain(err))
		case errors.Is(err, backup.ErrTooLarge):
			r.waitFor("Some data in lineage %s that no rule keeps can't be deleted: %v.", l.Lineage.Lineage, err)
		case isDamage(err):
			r.result.damaged(l.Lineage.Lineage, err)
			r.waitFor("Nothing is removed from lineage %s while something in it can't be read: %s.", l.Lineage.Lineage, r.result.unreadable[l.Lineage.Lineage])
		case err != nil:
			return fmt.Errorf("lineage %s: %w", l.Lineage.Lineage, err)
		}
	}
	if r.result.removed.any() {
		r.announce(r.result.removed.String())
	}
	return nil
}

// isDamage says that something of the lineage is not as it was written. Then it stays as it is, and only it.
func isDamage(err error) bool {
	return errors.Is(err, backup.ErrCorrupt) || errors.Is(err, backup.ErrFormat) || layout.Damaged(err)
}

func (r *run) keepLineage(ctx context.Context, l *inventory.Lineage, rules rules) error {
	if l.Unreadable != "" {
		r.waitFor("%s", unclear(l))
		return nil
	}
	owner, why := r.facts.owner(l, r.now)
	if why != "" {
		r.waitFor("%s", why)
	}
	if owner == ownership.Elsewhere || owner == ownership.Unknown {
		return nil
	}
	retained := r.retained(l, owner)
	retained.GivenUp = isGivenUp(r.repo, l, owner, r.now)
	plan, incomplete, err := r.plan(ctx, l, retained, rules.policy)
	if err != nil {
		return err
	}
	r.result.going(l, plan)
	shows := catalogue.Shows(r.repo, owner.Absent()) && !retained.GivenUp
	if shows {
		r.foresee(l, plan)
	}
	future := ""
	if !retained.GivenUp && l.Loses(plan) {
		future = r.fromTheFuture(l)
	}
	if why := cmp.Or(unclear(l), lacking(l, plan, incomplete), future); why != "" {
		r.waitFor("%s", why)
		return nil
	}
	if owner.Foreign() {
		return nil // what will be removed from it, once it counts as deleted, is shown meanwhile
	}
	sweep := r.now.Sub(r.swept[l.Lineage.Lineage]) >= sweepInterval
	if rules.idle || rules.policy.Empty() && !sweep && !retained.GivenUp {
		return nil
	}
	if seen := r.facts.seen[l.Lineage.Lineage]; !retained.GivenUp && r.now.Before(rules.notice.ends(seen)) {
		if l.Loses(plan) {
			r.waitFor("%s", rules.notice.awaits(l.Lineage.Lineage, seen))
		}
		plan = retention.Plan{}
	}
	if owner == ownership.Gone && !retained.GivenUp && l.Loses(plan) {
		r.result.losing = append(r.result.losing, l.Lineage.Lineage)
		if recordedSeen(r.repo, l.Lineage.Lineage).IsZero() {
			r.waitFor("Nothing is removed from lineage %s before status.lineages says since when it is known here.", l.Lineage.Lineage)
			plan = retention.Plan{}
		}
	}
	if !retained.GivenUp {
		r.await(l, plan, shows)
	}
	return r.clean(ctx, l, plan, sweep)
}

// foresee notes the backups that a plan removes, now or later, of which each can have an object. Those that have one keep it.
func (r *run) foresee(l *inventory.Lineage, plan retention.Plan) {
	name := l.Lineage.Lineage
	for _, b := range plan.Going() {
		object, where := r.facts.object(name, b.ID), r.place(name, b.ID)
		switch {
		case object != nil && object.Spec.Found != nil, object == nil && r.shown[where]:
			r.shows[where] = true
		case object == nil:
			r.later = append(r.later, where)
		}
	}
}

// await notes the backups that this run would remove if they had an object that says what they are, with which they can be held.
func (r *run) await(l *inventory.Lineage, plan retention.Plan, shows bool) {
	name, described := l.Lineage.Lineage, 0
	var missing []v1alpha1.FoundBackup
	for _, b := range plan.Going() {
		object, where := r.facts.object(name, b.ID), r.place(name, b.ID)
		switch {
		case object != nil && object.Status.Plan != nil:
			described++
			continue
		case object == nil && !shows:
			continue
		case object == nil && !r.shown[where]:
			missing = append(missing, where)
		}
		r.awaited[name]++
	}
	if described < removalsPerRun { // else it is those that wait, perhaps for the end of an object lock: other lineages go first
		r.due = append(r.due, missing...)
	}
}

// next are the backups that have an object because they are removed: those that have one already, then those for which a removal waits,
// and, as long as there are few, those that are removed later.
func (r *run) next() map[v1alpha1.FoundBackup]bool {
	next, room := map[v1alpha1.FoundBackup]bool{}, removalsPerRun
	maps.Copy(next, r.shows)
	add := func(places []v1alpha1.FoundBackup) {
		for _, where := range places {
			if room > 0 && !next[where] {
				next[where] = true
				room--
			}
		}
	}
	add(r.due)
	room = min(room, removalsPerRun-len(next))
	add(r.later)
	return next
}

func (r *run) place(lineage, id string) v1alpha1.FoundBackup {
	return v1alpha1.FoundBackup{Repository: r.repo.Name, Lineage: lineage, ID: id}
}

// unclear says in a sentence why nobody knows what the lineage needs; empty: it is known.
func unclear(l *inventory.Lineage) string {
	switch {
	case l.Unreadable != "":
		return fmt.Sprintf("Nothing is removed from lineage %s while it can't be read: %s.", l.Lineage.Lineage, l.Unreadable)
	case len(l.Damaged) > 0:
		return fmt.Sprintf("Nothing is removed from lineage %s while backup %s can't be read: it may need any part of it.", l.Lineage.Lineage, l.Damaged[0])
	case l.Unlinked != 0:
		return fmt.Sprintf("Nothing is removed from lineage %s while %s is missing from the archive and no backup was taken on that timeline: any backup may be the one that leads there.",
			l.Lineage.Lineage, postgres.HistoryName(l.Unlinked))
	}
	return ""
}

// retained is a lineage with what its Backup objects say.
func (r *run) retained(l *inventory.Lineage, owner ownership.Owner) retention.Lineage {
	retained := l.Retained()
	retained.Living, retained.FirstSeen = owner == ownership.Living, r.facts.seen[l.Lineage.Lineage]
	retained.Foreign = !r.facts.written[l.Lineage.Lineage]
	for i := range retained.Backups {
		b := &retained.Backups[i]
		if object := r.facts.object(l.Lineage.Lineage, b.ID); object != nil {
			b.Damaged = b.Damaged || damaged(object) || goes(object)
		}
		for _, object := range r.facts.objects(l.Lineage.Lineage, b.ID) {
			b.Held = b.Held || object.Spec.Hold
		}
	}
	return retained
}

// clean carries a plan out, unless somebody writes or reads the lineage.
func (r *run) clean(ctx context.Context, l *inventory.Lineage, plan retention.Plan, sweep bool) error {
	name := l.Lineage.Lineage
	defer r.Deletions.Lock(name)()
	writing, err := deletionlock.Writing(ctx, r.Live, r.repo.Namespace, name)
	if err != nil {
		return err
	}
	reading, err := restoring(ctx, r.Live, r.repo.Namespace, name, r.now)
	switch {
	case err != nil:
		return err
	case writing != "":
		r.waitFor("Nothing is removed from lineage %s while Backup %s is being written.", name, writing)
		return nil
	case reading != "":
		r.waitFor("Nothing is removed from lineage %s while Restore %s may read it.", name, reading)
		return nil
	}
	if !sweep && !l.Loses(plan) {
		return r.removeWAL(ctx, name, plan.KeepWAL) // of which there is none, as far as names tell: pieces, perhaps
	}
	locked, unlock, err := r.Deletions.LockBucket(ctx, r.store, r.repo, name)
	if errors.Is(err, bucketlock.ErrHeld) {
		r.waitFor("Nothing is removed from lineage %s now: %v.", name, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if why := r.clockDiffers(name); why != "" {
		r.waitFor("%s", why)
		return nil
	}
	if waits, err := r.awaitReaders(locked, name); err != nil || waits {
		return err
	}
	gone, err := r.missing(locked, name, plan)
	if err != nil {
		return err
	}
	if gone != "" {
		r.waitForNext(name, gone)
		return nil
	}
	return r.remove(locked, name, plan, sweep)
}

func (r *run) waitForNext(lineage, gone string) {
	r.waitFor("Nothing more is removed from lineage %s by this run, because backup %s, which would have stayed, was deleted meanwhile.", lineage, gone)
}

// missing is a backup on which a plan relies and that somebody else has deleted since it was made, or is deleting; empty: all stay.
func (r *run) missing(ctx context.Context, lineage string, plan retention.Plan) (string, error) {
	if len(plan.Relied) == 0 {
		return "", nil
	}
	ids, err := backup.IDs(ctx, r.store, lineage)
	if err != nil {
		return "", err
	}
	for _, b := range plan.Relied {
		if !slices.Contains(ids, b.ID) {
			return b.ID, nil
		}
	}
	return r.deleting(ctx, lineage, plan)
}

// deleting is a backup on which a plan relies and whose Backup a person has deleted since the plan was made; empty: all are there.
func (r *run) deleting(ctx context.Context, lineage string, plan retention.Plan) (string, error) {
	for _, b := range plan.Relied {
		for _, known := range r.facts.objects(lineage, b.ID) {
			if goes(known) {
				continue // as the plan knows
			}
			object := &v1alpha1.Backup{}
			err := r.Live.Get(ctx, client.ObjectKeyFromObject(known), object)
			switch {
			case apierrors.IsNotFound(err), err == nil && (object.UID != known.UID || goes(object)):
				return b.ID, nil
			case err != nil:
				return "", fmt.Errorf("read Backup %s: %w", known.Name, err)
			}
		}
	}
	return "", nil
}

func (r *run) remove(ctx context.Context, name string, plan retention.Plan, sweep bool) error {
	if sweep { // first, as a damaged claim that it removes would keep all else
		if err := r.sweep(ctx, name); err != nil {
			return err
		}
	}
	if done, err := r.removeBackups(ctx, name, plan); err != nil || !done {
		return err // WAL comes when all are gone
	}
	if plan.KeepWAL == 0 {
		return nil
	}
	if waits, err := r.awaitReaders(ctx, name); err != nil || waits { // again, as that may have taken long
		return err
	}
	return r.removeWAL(ctx, name, plan.KeepWAL)
}

// removeBackups removes the backups of a plan. False: some of them stay for now.
func (r *run) removeBackups(ctx context.Context, lineage string, plan retention.Plan) (done bool, err error) {
	waiting := 0
	for _, b := range plan.Going() {
		if r.result.removed.backups >= removalsPerRun {
			r.waitFor("More backups of lineage %s are deleted by the next run: one run deletes %d backups of a repository at most.", lineage, removalsPerRun)
			return false, nil
		}
		gone, err := r.deleting(ctx, lineage, plan) // again, as each removal may take long
		if err != nil {
			return false, err
		}
		if gone != "" {
			r.waitForNext(lineage, gone)
			return false, nil
		}
		held, err := r.facts.heldNow(ctx, r.Live, r.repo.Namespace, lineage, b.ID)
		if err != nil {
			return false, err
		}
		if held {
			r.waitFor("Nothing more is removed from lineage %s by this run, because backup %s is held now.", lineage, b.ID)
			return false, nil
		}
		waits, err := r.removeBackup(ctx, lineage, b.ID)
		if err != nil {
			return false, err
		}
		if waits {
			waiting++
		}
	}
	if waiting > 0 {
		r.waitFor("%d backups of lineage %s are not deleted before each has a Backup object whose status says what it is, so that it can be held.", waiting, lineage)
	}
	return r.awaited[lineage] == 0, nil
}

// removeWAL removes WAL before a segment, but for what backups need that are still there.
func (r *run) removeWAL(ctx context.Context, lineage string, before uint64) error {
	if before == 0 {
		return nil
	}
	removed, err := backup.ExpireWAL(ctx, r.store, lineage, before)
	r.result.removed.wal += removed.Objects
	r.result.removed.bytes += removed.Bytes
	r.result.removed.directly = r.result.removed.directly || removed.Objects > 0
	return err
}

// removeBackup deletes the Backup object, whose finalizer deletes the data; or the data, where there is no object. It says whether the
// backup waits for its object.
func (r *run) removeBackup(ctx context.Context, lineage, id string) (waits bool, err error) {
	object := r.facts.object(lineage, id)
	switch {
	case object != nil && object.Status.Plan != nil:
		return false, r.expire(ctx, object)
	case object != nil, r.shown[r.place(lineage, id)], r.awaited[lineage] > 0:
		return true, nil // its object is new, and doesn't say yet what it is, or comes with the next run: it could be held
	}
	freed, err := backup.Delete(ctx, r.store, lineage, id)
	if err != nil {
		return false, err
	}
	r.result.removed.backups++
	r.result.removed.bytes += freed
	r.result.removed.directly = true
	log.FromContext(ctx).Info("Removed a backup that no rule keeps", "repository", r.repo.Name, "lineage", lineage, "backup", id)
	return false, nil
}
