package backup

import (
	"context"
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
)

// deleteData deletes what the backup has in its repository, unless it shall stay. It waits until that is done: with the
// object gone, nobody would know of the data.
func (r *Reconciler) deleteData(_ context.Context, w *world) flow.Outcome {
	if w.backup.Status.Plan == nil || w.backup.Spec.DeletionPolicy == v1alpha1.BackupRetain {
		return flow.Next
	}
	const letGo = "To delete the Backup and leave its data, set spec.deletionPolicy: Retain."
	if w.planned == nil {
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"Its data can't be deleted: there is no BackupRepository %s any more; make it again. %s", w.backup.Status.Plan.Repository, letGo))
	}
	result, known := r.inStore(w, "delete", r.deleteNow)
	switch {
	case !known:
		return flow.Poll(lookAgain, v1alpha1.ReasonDeleting, fmt.Sprintf("Its data is being deleted from BackupRepository %s.", w.planned.Name))
	case result.err != nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonDeletionBlocked, fmt.Sprintf(
			"Its data can't be deleted from BackupRepository %s now: %s It is tried again. %s", w.planned.Name, explain(result.err), letGo))
	}
	return flow.Next
}

func (r *Reconciler) deleteNow(ctx context.Context, w *world) found {
	store, err := r.Open(ctx, r.Client, w.planned)
	if err != nil {
		return found{err: err}
	}
	plan := w.backup.Status.Plan
	_, err = backup.Delete(ctx, store, plan.Lineage, plan.ID)
	return found{err: err}
}

func (r *Reconciler) removeFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, w.backup, finalizer)
}
