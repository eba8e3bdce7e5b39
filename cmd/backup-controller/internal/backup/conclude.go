package backup

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/verify"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
)

// failedForGood reports that the worker says that trying again won't help.
func (o *observed) failedForGood() bool {
	return o.job.Failed && o.job.Outcome != nil && o.job.Outcome.Error != nil && o.job.Outcome.Error.Final
}

// needsMemory is the limit with which the next attempt succeeds where this one had too little, in bytes; 0: that was not it.
func (o *observed) needsMemory() int64 {
	return o.job.NeedsMemory(o.backup.Status.Plan.MemoryBytes, o.backup.Spec.Resources)
}

// takeResult takes what the worker's pod has said. One that could not be read is found in the repository.
func takeResult(_ context.Context, o *observed) flow.Outcome {
	result := agentapi.BackupResult{}
	if o.job.Complete && o.job.Result(&result) && result.Version != "" {
		return o.complete(result)
	}
	return flow.Next
}

func resultOf(header *backup.Header) agentapi.BackupResult {
	result := agentapi.BackupResult{
		Version: header.PGVersion, StartLSN: header.StartLSN.String(), StopLSN: header.StopLSN.String(), StopTime: header.StopTime,
		LogicalBytes: header.Totals.LogicalBytes, CopiedBytes: header.Totals.CopiedBytes, StoredBytes: header.Totals.StoredBytes,
		Incremental: header.Type == backup.Incremental, Parent: header.Parent, Why: header.Why,
	}
	if l := header.Locked; l != nil {
		result.Locked = &agentapi.Locked{Until: l.Until, Object: l.Object}
	}
	if damage := header.Damage; damage != nil {
		result.DamagedPages = damage.Count
		for _, page := range damage.Pages[:min(agentapi.MaxDamaged, len(damage.Pages))] {
			result.Damaged = append(result.Damaged, agentapi.DamagedPage{File: page.File, Block: page.Block})
		}
	}
	return result
}

// complete ends the backup with success.
func (o *observed) complete(result agentapi.BackupResult) flow.Outcome {
	status := &o.backup.Status
	status.CompletedAt = &metav1.Time{Time: o.now}
	status.Version, status.StartLSN, status.StopLSN = result.Version, result.StartLSN, result.StopLSN
	status.StopTime = &metav1.Time{Time: result.StopTime}
	status.LogicalBytes, status.StoredBytes = result.LogicalBytes, result.StoredBytes
	status.Type, status.Parent, status.ChangedBytes = v1alpha1.BackupFull, "", result.LogicalBytes
	if result.Incremental {
		status.Type, status.Parent, status.ChangedBytes = v1alpha1.BackupIncremental, result.Parent, result.CopiedBytes
	}
	status.DamagedPages = damagedPages(result)
	message := summary(status)
	if l := result.Locked; l != nil {
		status.LockedUntil, status.LockEndsFirst = &metav1.Time{Time: l.Until}, l.Object
		message += " " + verify.Lock(status, o.now)
	}
	if why := whyFull(o.backup, result.Why); why != "" {
		message += fmt.Sprintf(" It is a full backup because %s.", why)
	}
	return flow.Save(v1alpha1.ReasonCompleted, message)
}

// damagedPages are those that the result lists; nil: there are none.
func damagedPages(result agentapi.BackupResult) *v1alpha1.DamagedPages {
	if result.DamagedPages == 0 {
		return nil
	}
	damaged := &v1alpha1.DamagedPages{Count: int64(result.DamagedPages)}
	for _, page := range result.Damaged[:min(agentapi.MaxDamaged, len(result.Damaged))] {
		damaged.Pages = append(damaged.Pages, v1alpha1.DamagedPage{File: page.File, Block: int64(page.Block)})
	}
	return damaged
}

// damageOf says in sentences which pages are damaged, and what to do.
func damageOf(damaged *v1alpha1.DamagedPages) string {
	first := ""
	if len(damaged.Pages) > 0 {
		first = fmt.Sprintf(", such as block %d of %s", damaged.Pages[0].Block, damaged.Pages[0].File)
	}
	return fmt.Sprintf("%d pages of the database fail their checksum%s, and the backup contains them unchanged. Look at the disk, and restore a backup without such pages, or rebuild what they belong to. Retention keeps the last backup without them.",
		damaged.Count, first)
}

func summary(status *v1alpha1.BackupStatus) string {
	message := "Backed up " + bytes(status.LogicalBytes)
	if status.Type == v1alpha1.BackupIncremental {
		message = fmt.Sprintf("Backed up %s of %s, everything that may have changed since backup %s,", bytes(status.ChangedBytes), bytes(status.LogicalBytes), status.Parent)
	}
	if status.StartedAt != nil {
		took := max(time.Second, status.CompletedAt.Sub(status.StartedAt.Time)).Round(time.Second)
		message += fmt.Sprintf(" in %s (%s/s)", took, bytes(int64(float64(status.ChangedBytes)/took.Seconds())))
	}
	return fmt.Sprintf("%s. It takes %s in the bucket, and can be restored to any time from %s on.",
		message, bytes(status.StoredBytes), status.StopTime.UTC().Format(time.RFC3339))
}

// bytes writes a size for a person.
func bytes(n int64) string {
	const units = "KMGTPE"
	value, unit := float64(n), -1
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit < 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

func concludeCancelled(_ context.Context, o *observed) flow.Outcome {
	return o.stop(v1alpha1.ReasonCancelled, "The backup was cancelled by spec.cancel. Create another Backup if one is needed.")
}

func concludeFailed(_ context.Context, o *observed) flow.Outcome {
	return o.stop(o.job.FailureReason())
}
