package backup

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report says in the Succeeded condition how the backup stands. How it ended stays as it was said then: what comes
// after is only clearing away, until the object is deleted.
func report(o *observed, outcome flow.Outcome) {
	backup := o.backup
	if o.endedBefore && backup.DeletionTimestamp.IsZero() {
		backup.Status.ObservedGeneration = backup.Generation
		return
	}
	if outcome.Reason == "" {
		return // a finalizer was written, and nothing else was looked at
	}
	backup.Status.ObservedGeneration = backup.Generation
	flow.SetEnd(&backup.Status.Conditions, backup, v1alpha1.ConditionSucceeded, statusOf(backup, outcome), outcome.Reason, outcome.Message)
	if damaged := backup.Status.DamagedPages; damaged != nil {
		flow.SetCondition(&backup.Status.Conditions, backup, v1alpha1.ConditionPagesIntact, metav1.ConditionFalse, v1alpha1.ReasonDamagedPages, damageOf(damaged))
	}
}

func statusOf(backup *v1alpha1.Backup, outcome flow.Outcome) metav1.ConditionStatus {
	if outcome.Reason == v1alpha1.ReasonHeld && backup.Status.StopTime != nil {
		return metav1.ConditionTrue // its data is there as before
	}
	switch outcome.Reason {
	case v1alpha1.ReasonCompleted, v1alpha1.ReasonFound:
		return metav1.ConditionTrue
	case v1alpha1.ReasonDeleting, v1alpha1.ReasonDeletionBlocked, v1alpha1.ReasonRetained, v1alpha1.ReasonHeld:
		return metav1.ConditionFalse
	}
	return outcome.Status()
}
