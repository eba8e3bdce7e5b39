package restore

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report sets the condition from what was done in this pass; that of a Restore that had ended before stays. It is pure.
func report(restore *v1alpha1.Restore, outcome flow.Outcome, ended bool, now time.Time) {
	status := &restore.Status
	status.ObservedGeneration = restore.Generation
	if ended {
		return
	}
	reason, message := outcome.Reason, outcome.Message
	if restore.DeletionTimestamp.IsZero() && (outcome.Finished() || outcome.Stopped()) {
		status.CompletedAt = &metav1.Time{Time: now}
	}
	if outcome.Finished() {
		reason, message = v1alpha1.ReasonCompleted, summary(restore)
	}
	if reason == "" {
		return
	}
	flow.SetCondition(&status.Conditions, restore, v1alpha1.ConditionSucceeded, outcome.Status(), reason, message)
}

// summary says where the restore has ended and how long it took.
func summary(restore *v1alpha1.Restore) string {
	status := restore.Status
	if status.Reached == nil || status.StartedAt == nil || status.CompletedAt == nil {
		return ""
	}
	reached := "LSN " + status.Reached.LSN
	if last := status.Reached.LastCommit; last != nil {
		reached += ", last transaction at " + last.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("PostgresCluster %s runs on the data as of %s (%s); it took %s",
		restore.Spec.Destination.ClusterName(), status.Plan.Target, reached, status.CompletedAt.Sub(status.StartedAt.Time).Round(time.Second))
}
