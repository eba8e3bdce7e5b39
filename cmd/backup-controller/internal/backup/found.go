package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
)

// describeFound says in the status what spec.found names, so that it serves like a backup that was made here.
func (r *Reconciler) describeFound(ctx context.Context, o *observed) flow.Outcome {
	where := o.backup.Spec.Found
	repo, err := r.readRepository(ctx, o.backup.Namespace, where.Repository)
	if err != nil {
		return flow.Retry(err)
	}
	if repo == nil {
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf(
			"BackupRepository %s, which spec.found names, does not exist in namespace %s. Create it, or create another Backup.", where.Repository, o.backup.Namespace))
	}
	look := func(ctx context.Context) found { return r.lookFor(ctx, repo, where) }
	result, known := r.Stores.Do(o.backup, "found", time.Hour, look)
	if known && result.err != nil && !lost(result.err) {
		result, known = r.Stores.Do(o.backup, "found", storeRetry, look)
	}
	switch {
	case !known:
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("BackupRepository %s is being read.", where.Repository))
	case errors.Is(result.err, objstore.ErrNotFound):
		return o.stop(v1alpha1.ReasonBackupNotFound, fmt.Sprintf("BackupRepository %s has no backup %s in lineage %s.", where.Repository, where.ID, where.Lineage))
	case lost(result.err):
		return o.stop(v1alpha1.ReasonDataCorrupt, fmt.Sprintf("The manifest of the backup is not usable: %s.", result.err))
	case result.err != nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s can't be read: %s", where.Repository, explain(result.err)))
	}
	return o.adopt(where, result.header)
}

// lost says that no other look can help.
func lost(err error) bool {
	return errors.Is(err, objstore.ErrNotFound) || errors.Is(err, backup.ErrCorrupt) || errors.Is(err, backup.ErrFormat)
}

func (r *Reconciler) lookFor(ctx context.Context, repo *v1alpha1.BackupRepository, where *v1alpha1.FoundBackup) found {
	store, err := r.Open(ctx, r.Client, repo)
	if err != nil {
		return found{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	header, err := backup.ReadOutline(ctx, store, where.Lineage, where.ID)
	return found{header: header.Brief(), err: err}
}

// adopt ends a found backup with success.
func (o *observed) adopt(where *v1alpha1.FoundBackup, header *backup.Header) flow.Outcome {
	status := &o.backup.Status
	status.Plan = planOf(where, header)
	status.Type = status.Plan.Type
	o.complete(resultOf(header))
	status.StartedAt = &metav1.Time{Time: header.StartTime}
	if !header.StopTime.IsZero() { // which no status keeps: the Backup would be adopted again and again
		status.CompletedAt = &metav1.Time{Time: header.StopTime}
	}
	return flow.Save(v1alpha1.ReasonFound, fmt.Sprintf("Found in BackupRepository %s: %s of cluster %s/%s, %s in the bucket. It can be restored to any time from %s on.",
		where.Repository, bytes(header.Totals.LogicalBytes), header.Cluster.Namespace, header.Cluster.Name, bytes(header.Totals.StoredBytes), header.StopTime.UTC().Format(time.RFC3339)))
}

func planOf(where *v1alpha1.FoundBackup, header *backup.Header) *v1alpha1.BackupPlan {
	plan := &v1alpha1.BackupPlan{
		ID: where.ID, Repository: where.Repository, Lineage: where.Lineage, Type: v1alpha1.BackupFull, Parent: header.Parent,
		ClusterUID: types.UID(header.Cluster.UID), Instance: header.Cluster.Instance,
	}
	if header.Type == backup.Incremental {
		plan.Type = v1alpha1.BackupIncremental
	}
	return plan
}
