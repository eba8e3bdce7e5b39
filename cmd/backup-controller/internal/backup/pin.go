package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// pinPlan decides what is read and where it goes, and records it before there is a Job. A new attempt has the same id:
// what an earlier one has committed after all counts.
func pinPlan(_ context.Context, o *observed) flow.Outcome {
	status, primary := &o.backup.Status, primaryOf(o.cluster)
	attempt, memory := int32(1), int64(0)
	if status.Plan != nil {
		attempt, memory = status.Plan.Attempt+1, max(status.Plan.MemoryBytes, o.needsMemory())
	}
	status.Plan = &v1alpha1.BackupPlan{
		ID:         backupID(o.backup),
		Repository: o.wanted.Name,
		Lineage:    protocol.Lineage(o.cluster.Status.SystemIdentifier, o.cluster.Status.DataGeneration),
		ClusterUID: o.cluster.Identity(),
		Instance:   primary.Name,
		Volume:     primary.Volume,
		Node:       primary.Node,
		Attempt:    attempt, MemoryBytes: memory,
	}
	pinType(status.Plan, o)
	status.StartedAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonRunning, running(o.backup, ""))
}

// backupID names a backup in its repository: the time first, so that a list is in order, and something of the UID, so
// that two objects of one name don't meet.
func backupID(backup *v1alpha1.Backup) string {
	sum := sha256.Sum256([]byte(backup.UID))
	return fmt.Sprintf("%s-%s-%s", backup.CreationTimestamp.UTC().Format("20060102T150405Z"), backup.Name, hex.EncodeToString(sum[:4]))
}

// jobName is at most 63 characters long, as the label of a Job's pods.
func jobName(backup *v1alpha1.Backup, attempt int32) string {
	suffix := "-backup"
	if attempt > 1 {
		suffix = fmt.Sprintf("-backup-%d", attempt)
	}
	const most = 63
	if len(backup.Name)+len(suffix) <= most {
		return backup.Name + suffix
	}
	sum := sha256.Sum256([]byte(backup.UID))
	suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
	return backup.Name[:most-len(suffix)] + suffix
}

// phases say for a person what the worker does.
var phases = map[string]string{
	"Starting":   "waiting for a checkpoint of",
	"Copying":    "copying",
	"AwaitWAL":   "waiting until the last WAL is archived of",
	"Committing": "committing the backup of",
}

// running is the message while the Job runs. Trouble is a sentence or nothing.
func running(backup *v1alpha1.Backup, trouble string) string {
	plan := backup.Status.Plan
	doing := "starting on"
	if progress := backup.Status.Progress; progress != nil && phases[progress.Phase] != "" {
		doing = phases[progress.Phase]
	}
	message := fmt.Sprintf("Job %s is %s instance %s on node %s.", jobName(backup, plan.Attempt), doing, plan.Instance, plan.Node)
	if plan.Parent != "" {
		message += fmt.Sprintf(" It builds on backup %s.", plan.Parent)
	}
	if trouble != "" {
		message += " " + trouble
	}
	return message
}
