package backup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/inventory"
)

// parentOf is the latest backup that one in this repository and lineage can build on, nil if there is none. Where one was
// found to have wrong objects, the others since the last full one may need the same objects: then none of them will do.
func parentOf(backup *v1alpha1.Backup, repository, lineage string, all []v1alpha1.Backup) *v1alpha1.Backup {
	var latest, full, wrong *v1alpha1.Backup
	for i := range all {
		other := &all[i]
		status := &other.Status
		if other.UID == backup.UID || !other.DeletionTimestamp.IsZero() || status.Plan == nil || status.StopTime == nil ||
			status.Plan.Repository != repository || status.Plan.Lineage != lineage ||
			!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionSucceeded) {
			continue
		}
		latest = later(latest, other)
		if status.Type != v1alpha1.BackupIncremental {
			full = later(full, other)
		}
		if meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionVerified) {
			wrong = later(wrong, other)
		}
	}
	if wrong != nil && (full == nil || later(wrong, full) == wrong) {
		return nil
	}
	return latest
}

// later is the one of two that ended later; the first of those that ended at once.
func later(a, b *v1alpha1.Backup) *v1alpha1.Backup {
	if a == nil || a.Status.StopTime.Before(b.Status.StopTime) {
		return b
	}
	return a
}

// pinType decides what is made: an incremental backup needs one to build on.
func pinType(plan *v1alpha1.BackupPlan, o *observed) {
	plan.Type = v1alpha1.BackupFull
	if o.backup.Spec.Type != v1alpha1.BackupIncremental {
		return
	}
	if parent := parentOf(o.backup, plan.Repository, plan.Lineage, o.siblings); parent != nil {
		plan.Type, plan.Parent = v1alpha1.BackupIncremental, parent.Status.Plan.ID
	}
}

// whyFull says why an incremental backup was not made where one was asked for; empty if it was.
func whyFull(backup *v1alpha1.Backup, worker string) string {
	switch plan := backup.Status.Plan; {
	case backup.Spec.Type != v1alpha1.BackupIncremental || backup.Status.Type != v1alpha1.BackupFull:
		return ""
	case worker != "":
		return inventory.Shorten(worker) // as the bucket has it
	default:
		return fmt.Sprintf("BackupRepository %s has no intact backup of the cluster's current data to build on", plan.Repository)
	}
}
