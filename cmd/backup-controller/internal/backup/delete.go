package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
)

// awaitRelease waits until a backup that is held is let go. One that was deleted while it runs continues to its end first.
func awaitRelease(_ context.Context, _ *observed) flow.Outcome {
	return flow.Wait(v1alpha1.ReasonHeld,
		"The Backup was deleted, but stays with its data because spec.hold is true. To delete it, set spec.hold: false. To keep its data without the Backup, set spec.deletionPolicy: Retain first.")
}

// deleteData deletes what the backup has in its repository, unless it shall stay. It waits until that is done: with the
// object gone, nobody would know of the data.
func (r *Reconciler) deleteData(_ context.Context, o *observed) flow.Outcome {
	if o.backup.Status.Plan == nil || o.retained() {
		return flow.Next
	}
	const letGo = "To delete the Backup but keep its data, set spec.deletionPolicy: Retain."
	if o.planned == nil {
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"The data can't be deleted because BackupRepository %s no longer exists. Create it again. %s", o.backup.Status.Plan.Repository, letGo))
	}
	result, known := r.inStore(o, "delete", r.deleteNow)
	var foreign *foreignError
	switch {
	case !known:
		return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("The data is being deleted from BackupRepository %s.", o.planned.Name))
	case errors.Is(result.err, errBeingWritten), errors.Is(result.err, errBeingRead), errors.Is(result.err, bucketlock.ErrHeld):
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf("The data can't be deleted now: %s. %s", result.err, letGo))
	case errors.As(result.err, &foreign):
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"The data is not deleted, because it may belong to somebody else. %s %s", foreign.why, letGo))
	case errors.Is(result.err, objstore.ErrLocked):
		return flow.Poll(lockedRetry, v1alpha1.ReasonRetained, fmt.Sprintf("The data is kept for now. %s It is deleted afterwards. %s", explain(result.err), letGo))
	case result.late:
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"The deletion of the data from BackupRepository %s did not end within %s. The store is slow, or the lineage has very many backups, which must be read first. The next attempt has %s. %s",
			o.planned.Name, minutes(result.limit), minutes(result.next()), letGo))
	case result.err != nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"The data can't be deleted from BackupRepository %s now: %s The controller tries again. %s", o.planned.Name, explain(result.err), letGo))
	}
	return flow.Next
}

func minutes(d time.Duration) string { return fmt.Sprintf("%.0f minutes", d.Minutes()) }

// errBeingWritten is a backup of the same lineage that may come to point at what is to be deleted.
var errBeingWritten = errors.New("another backup that may use it is being written")

// errBeingRead is a Restore that would fail, perhaps after it has given up the previous data of a cluster.
var errBeingRead = errors.New("it is being restored")

// lockedPause is the time between two looks at a lineage that is locked.
const lockedPause = 5 * time.Second

// lockedRetry is the time between two attempts to delete what is locked, for days as a rule.
const lockedRetry = time.Hour

// retained says that the data stays when the object goes.
func (o *observed) retained() bool {
	return o.namespaceGoes || o.backup.Spec.DeletionPolicy == v1alpha1.BackupRetain && o.backup.Annotations[v1alpha1.AnnotationExpired] == ""
}

func (r *Reconciler) deleteNow(ctx context.Context, o *observed) found {
	store, err := r.Open(ctx, r.Client, o.planned)
	if err != nil {
		return found{err: err}
	}
	plan := o.backup.Status.Plan
	if err := r.requireOurs(ctx, store, o); err != nil {
		return found{err: err}
	}
	defer r.Deletions.Lock(plan.Lineage)()
	if o.backup.Status.CompletedAt != nil { // nobody builds on what has not ended, or reads it
		if err := r.unused(ctx, o.backup); err != nil {
			return found{err: err}
		}
	}
	locked, unlock, err := r.Deletions.LockBucket(ctx, store, o.planned, plan.Lineage)
	if err != nil {
		return found{err: err}
	}
	defer unlock()
	if err := r.unread(locked, store, o); err != nil {
		return found{err: err}
	}
	_, err = backup.Delete(locked, store, plan.Lineage, plan.ID)
	return found{err: err}
}

// unread says who reads a backup of whom only its bucket tells, if somebody does. Whoever can write to the bucket can write so, so it counts for
// some time only.
func (r *Reconciler) unread(ctx context.Context, store objstore.Store, o *observed) error {
	plan, end := o.backup.Status.Plan, o.backup.DeletionTimestamp.Add(readnotice.Longest)
	there := r.Deletions.ServerTime(o.planned, plan.Lineage)
	if o.backup.Status.CompletedAt == nil || !r.Now().Before(end) && !there.Before(end) { // either clock may be ahead
		return nil
	}
	all, err := readnotice.List(ctx, store, plan.Lineage, there)
	if err != nil {
		return err
	}
	for _, reader := range all {
		if reader.Reads(plan.ID) {
			return fmt.Errorf("%w: %s. The data is deleted at %s at the latest", errBeingRead, reader, end.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// unused says who needs the data of a backup now, if somebody does: a backup that is being written, or a Restore.
func (r *Reconciler) unused(ctx context.Context, b *v1alpha1.Backup) error {
	plan := b.Status.Plan
	writing, err := deletionlock.Writing(ctx, r.Live, b.Namespace, plan.Lineage)
	if err != nil {
		return err
	}
	reading, err := deletionlock.Reading(ctx, r.Live, b.Namespace, plan.Lineage, plan.ID)
	switch {
	case err != nil:
		return err
	case writing != "":
		return fmt.Errorf("%w: Backup %s", errBeingWritten, writing)
	case reading != "":
		return fmt.Errorf("%w by Restore %s", errBeingRead, reading)
	}
	return nil
}

// foreignError is a lineage that belongs, or may belong, to somebody else.
type foreignError struct{ why string }

func (e *foreignError) Error() string { return e.why }

// requireOurs asks whose a backup is that was only found, as retention does: whoever deletes it may not know.
func (r *Reconciler) requireOurs(ctx context.Context, store objstore.Store, o *observed) error {
	if o.backup.Spec.Found == nil {
		return nil
	}
	name := o.backup.Status.Plan.Lineage
	lineage, err := layout.ReadLineage(ctx, store, name)
	if errors.Is(err, objstore.ErrNotFound) {
		return &foreignError{fmt.Sprintf("Who writes lineage %s isn't known, because %s is missing. If nobody needs the backup, delete it with howdah-backup delete %s/%s.",
			name, layout.LineageKey(name), name, o.backup.Status.Plan.ID)}
	}
	if err != nil {
		return err
	}
	writers, err := ownership.Look(ctx, r.Live, o.planned, lineage)
	if err != nil {
		return err
	}
	owner, why := writers.Owner(lineage, time.Time{}, r.Now())
	if owner == ownership.Gone { // unless it was written lately
		lately, err := lastWritten(ctx, store, o.planned, lineage, r.Now())
		if err != nil {
			return fmt.Errorf("when lineage %s was last written isn't known: %w", name, err)
		}
		owner, why = writers.Owner(lineage, lately, r.Now())
	}
	if owner.Foreign() {
		return &foreignError{why}
	}
	return nil
}

// inventoried is for how long it counts what an inventory has found.
const inventoried = time.Hour

// lastWritten is when a lineage was last written: as the status of the repository says, or, where that is old or has no room for the lineage, as
// its objects say.
func lastWritten(ctx context.Context, store objstore.Store, repo *v1alpha1.BackupRepository, lineage layout.Lineage, now time.Time) (time.Time, error) {
	if at := repo.Status.LastInventoryTime; at != nil && now.Sub(at.Time).Abs() < inventoried {
		for _, l := range repo.Status.Lineages {
			if l.Name == lineage.Lineage && l.LastWritten != nil {
				return l.LastWritten.Time, nil
			}
		}
	}
	last := lineage.Created
	for info, err := range store.List(ctx, layout.LineagePrefix(lineage.Lineage), "") {
		if err != nil {
			return time.Time{}, err
		}
		if info.Modified.After(last) {
			last = info.Modified
		}
	}
	return last, nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, o.backup, finalizer)
}
