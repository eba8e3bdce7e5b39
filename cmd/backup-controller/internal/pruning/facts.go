package pruning

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/protocol"
)

// facts are what Kubernetes knows of a repository.
type facts struct {
	backups []v1alpha1.Backup // of the namespace
	writers *ownership.Writers
	// seen says since when each lineage is known here.
	seen map[string]time.Time
	// written says which lineages a cluster of this Kubernetes writes, or wrote.
	written map[string]bool
	// awaited are the lineages of previous data, which a Restore gives up by itself only if status lists them.
	awaited map[string]bool
	repo    string
}

// gather reads past the cache: what is not known here is deleted.
func gather(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, lineages []inventory.Lineage) (*facts, error) {
	backups := &v1alpha1.BackupList{}
	if err := reader.List(ctx, backups, client.InNamespace(repo.Namespace)); err != nil {
		return nil, fmt.Errorf("list Backups: %w", err)
	}
	owned := make([]layout.Lineage, 0, len(lineages))
	for i := range lineages {
		owned = append(owned, lineages[i].Lineage)
	}
	awaited, err := awaitedLineages(ctx, reader, repo)
	if err != nil {
		return nil, err
	}
	writers, err := ownership.Look(ctx, reader, repo, owned...)
	return &facts{backups: backups.Items, writers: writers, awaited: awaited, repo: repo.Name}, err
}

// awaitedLineages are those of the previous data of Restores in place that wait for a decision.
func awaitedLineages(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (map[string]bool, error) {
	restores, awaited := &v1alpha1.RestoreList{}, map[string]bool{}
	if err := reader.List(ctx, restores, client.InNamespace(repo.Namespace)); err != nil {
		return nil, fmt.Errorf("list Restores: %w", err)
	}
	for i := range restores.Items {
		status := &restores.Items[i].Status
		if previous := status.Previous; status.CompletedAt == nil && previous != nil && previous.Repository == repo.Name {
			awaited[protocol.Lineage(previous.SystemIdentifier, previous.DataGeneration)] = true
		}
	}
	return awaited, nil
}

// heldNow says whether a backup is held by now, also by a Backup that was created since the facts were gathered.
func (f *facts) heldNow(ctx context.Context, reader client.Reader, namespace, lineage, id string) (bool, error) {
	backups := &v1alpha1.BackupList{}
	if err := reader.List(ctx, backups, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("list Backups: %w", err)
	}
	now := &facts{backups: backups.Items, writers: f.writers, repo: f.repo}
	return slices.ContainsFunc(now.objects(lineage, id), func(b *v1alpha1.Backup) bool { return b.Spec.Hold }), nil
}

// owner says whose a lineage is, and in a sentence why nothing is removed from it, if it may be somebody else's.
func (f *facts) owner(l *inventory.Lineage, now time.Time) (ownership.Owner, string) {
	lately := l.LastWritten
	if seen := f.seen[l.Lineage.Lineage]; seen.After(lately) {
		lately = seen
	}
	return f.writers.Owner(l.Lineage, lately, now)
}

// hasWritten says that the cluster that writes or wrote a lineage is there.
func (f *facts) hasWritten(l *inventory.Lineage) bool {
	return f.writers != nil && f.writers.Known(l.Lineage.Writer)
}

// object is the Backup of a backup in this repository, or nil. One by another name of the repository is its object, too.
func (f *facts) object(lineage, id string) (object *v1alpha1.Backup) {
	for _, b := range f.objects(lineage, id) {
		repository := repositoryOf(b)
		if repository == f.repo {
			return b
		}
		if _, writable := f.writers.Same(repository); writable {
			object = b
		}
	}
	return object
}

// objects are all Backups of a backup, by whatever name of the repository.
func (f *facts) objects(lineage, id string) (objects []*v1alpha1.Backup) {
	for i := range f.backups {
		b := &f.backups[i]
		plan, found := b.Status.Plan, b.Spec.Found
		if (plan == nil || plan.Lineage != lineage || plan.ID != id) && (found == nil || found.Lineage != lineage || found.ID != id) {
			continue
		}
		if same, _ := f.writers.Same(repositoryOf(b)); same || repositoryOf(b) == f.repo {
			objects = append(objects, b)
		}
	}
	return objects
}

// repositoryOf is the BackupRepository of a Backup that has a plan or was found.
func repositoryOf(b *v1alpha1.Backup) string {
	if b.Status.Plan != nil {
		return b.Status.Plan.Repository
	}
	return b.Spec.Found.Repository
}

// damaged says that the backup's data was wrong when it was last read. Another verification that is under way or failed has another reason.
func damaged(b *v1alpha1.Backup) bool {
	return meta.IsStatusConditionFalse(b.Status.Conditions, v1alpha1.ConditionVerified)
}

// goes says that the backup's data is being deleted, or will be once the Backup is let go: it can't be counted on when others are removed.
func goes(b *v1alpha1.Backup) bool {
	return !b.DeletionTimestamp.IsZero() && (b.Spec.DeletionPolicy != v1alpha1.BackupRetain || b.Annotations[v1alpha1.AnnotationExpired] != "")
}

// planning is how long a Restore that has no plan yet is waited for.
const planning = time.Hour

// restoring names a Restore that reads a lineage, or may be about to; empty if there is none.
func restoring(ctx context.Context, reader client.Reader, namespace, lineage string, now time.Time) (string, error) {
	restores := &v1alpha1.RestoreList{}
	if err := reader.List(ctx, restores, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list Restores: %w", err)
	}
	for i := range restores.Items {
		r := &restores.Items[i]
		plan := r.Status.Plan
		switch {
		case r.Status.CompletedAt != nil:
		case plan != nil && plan.Lineage == lineage, plan == nil && now.Sub(r.CreationTimestamp.Time) < planning:
			return r.Name, nil
		}
	}
	return "", nil
}
