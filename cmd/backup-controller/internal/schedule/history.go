package schedule

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// remember notes the last success: the Backup may be deleted by retention, the time stays.
func (r *Reconciler) remember(_ context.Context, o *observed) flow.Outcome {
	status := &o.schedule.Status
	for _, backup := range o.backups {
		ended := backup.Status.CompletedAt
		if !meta.IsStatusConditionTrue(backup.Status.Conditions, v1alpha1.ConditionSucceeded) || ended == nil {
			continue
		}
		if status.LastSuccessTime == nil || status.LastSuccessTime.Before(ended) {
			status.LastSuccessTime, status.LastSuccessfulBackup = ended.DeepCopy(), backup.Name
		}
	}
	return flow.Next
}

// forget deletes the oldest of the Backups that have failed, as far as they are more than are kept. That one can't be deleted
// is no news of the schedule, so this error has no reason to report.
func (r *Reconciler) forget(ctx context.Context, o *observed) flow.Outcome {
	for _, backup := range o.forgotten() {
		uid := backup.UID
		if err := r.Client.Delete(ctx, backup, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return flow.Outcome{Kind: flow.KindRetry, Err: fmt.Errorf("delete Backup %s, which has failed: %w", backup.Name, err)}
		}
	}
	return flow.Next
}

// forgotten are the Backups that have failed and are not kept.
func (o *observed) forgotten() []*v1alpha1.Backup {
	limit := o.schedule.Spec.FailedBackupsHistoryLimit
	if limit == nil {
		return nil
	}
	var failed []*v1alpha1.Backup
	for _, backup := range o.backups {
		if meta.IsStatusConditionFalse(backup.Status.Conditions, v1alpha1.ConditionSucceeded) &&
			backup.Status.CompletedAt != nil && backup.DeletionTimestamp.IsZero() && !backup.Spec.Hold {
			failed = append(failed, backup)
		}
	}
	slices.SortFunc(failed, func(a, b *v1alpha1.Backup) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return failed[min(len(failed), int(*limit)):]
}
