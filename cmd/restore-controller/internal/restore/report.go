package restore

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report sets the condition from what was done in this pass; that of a Restore that had ended before stays. It is pure.
func report(o *observed, outcome flow.Outcome) {
	restore := o.restore
	status := &restore.Status
	status.ObservedGeneration = restore.Generation
	reportRestored(restore)
	if o.endedBefore {
		return
	}
	reason, message := outcome.Reason, outcome.Message
	if restore.DeletionTimestamp.IsZero() && (outcome.Finished() || outcome.Stopped()) {
		status.CompletedAt = &metav1.Time{Time: o.now}
	}
	if outcome.Finished() {
		reason, message = v1alpha1.ReasonCompleted, summary(restore)
	}
	if reason == "" {
		return
	}
	flow.SetEnd(&status.Conditions, restore, v1alpha1.ConditionSucceeded, outcome.Status(), reason, message)
}

// reportRestored says whether the cluster of a restore in place runs on the restored data.
func reportRestored(restore *v1alpha1.Restore) {
	status := &restore.Status
	switch {
	case restore.Spec.Destination.InPlace == nil:
	case status.UndoneAt != nil:
		flow.SetCondition(&status.Conditions, restore, v1alpha1.ConditionRestored, metav1.ConditionFalse, v1alpha1.ReasonUndone,
			"The cluster runs on its previous data.")
	case status.RestoredAt != nil:
		flow.SetCondition(&status.Conditions, restore, v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonRunning, summary(restore))
	}
}

// summary says where the restore has ended and how long it took.
func summary(restore *v1alpha1.Restore) string {
	status := restore.Status
	if restore.Spec.Mode == v1alpha1.RestorePlanOnly {
		return planned(status.Plan)
	}
	if restore.Spec.Destination.IntoCluster != nil {
		return intoSummary(restore)
	}
	end := status.CompletedAt
	if status.RestoredAt != nil {
		end = status.RestoredAt
	}
	if status.Reached == nil || status.StartedAt == nil || end == nil {
		return ""
	}
	reached := "LSN " + status.Reached.LSN
	if last := status.Reached.LastCommit; last != nil {
		reached += ", last transaction at " + last.UTC().Format(time.RFC3339Nano)
	}
	text := fmt.Sprintf("PostgresCluster %s runs on the data as of %s (%s). The restore took %s",
		restore.Spec.Destination.ClusterName(), status.Plan.Target, reached, end.Sub(status.StartedAt.Time).Round(time.Second))
	if status.RestoredAt != nil && status.DownAt != nil {
		text += fmt.Sprintf(", and the cluster accepted no connections for about %s", end.Sub(status.DownAt.Time).Round(time.Second))
	}
	text += "."
	if taken := status.Reached.TakenBytes; taken > 0 {
		text += fmt.Sprintf(" %d of %d MiB were taken from the previous data.", taken>>20, status.Plan.WriteBytes>>20)
	}
	text += damaged(status.Plan) + unarchived(restore) + unsubscribed(restore) + notTaken(status.Plan) + unset(status.DroppedSettings)
	if decided := status.Decided; decided != nil && decided.Decision == v1alpha1.DecisionConfirm {
		text += " It was confirmed: " + decided.Why + "."
	}
	return text
}

// unsubscribed says which subscriptions don't continue, where there are any.
func unsubscribed(restore *v1alpha1.Restore) string {
	names := strings.Join(restore.Status.DisabledSubscriptions, ", ")
	switch {
	case names == "":
		return ""
	case restore.Spec.Destination.InPlace != nil:
		return fmt.Sprintf(" The subscriptions %s are disabled, because their slots at the publishers have passed the restored data: if they were enabled, PostgreSQL would silently skip "+
			"what came between. Drop each of them, empty its tables, and create it again, so that it copies them. For one that spec.databases declares, set ensure: Absent, and then Present.", names)
	}
	return fmt.Sprintf(" The subscriptions %s are disabled, because their slots at the publishers belong to the cluster that was backed up. If that still exists, drop them here after "+
		"ALTER SUBSCRIPTION ... SET (slot_name = NONE). Otherwise, create them again with empty tables: ALTER SUBSCRIPTION ... ENABLE would silently skip what their slots have passed.", names)
}

// unset says which settings of ALTER SYSTEM are removed, where there are any.
func unset(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" The repository is neither encrypted nor signed, so what loads code or runs a command was removed from postgresql.auto.conf: %s. "+
		"Set again those that you need, in spec.postgresql.parameters or with ALTER SYSTEM.", strings.Join(names, ", "))
}

// unarchived says that the new cluster has no archive, where that is so.
func unarchived(restore *v1alpha1.Restore) string {
	plan, into := restore.Status.Plan, restore.Spec.Destination.NewCluster
	if into == nil || into.Temporary || plan.ArchivesTo != "" {
		return ""
	}
	return fmt.Sprintf(" It has no archive, as BackupRepository %s is read-only. Set its spec.archive.repository.name to another one.", plan.Repository)
}
