package retention

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/protocol"
)

// owner says who a lineage belongs to.
type owner int

const (
	living    owner = iota // a cluster of this namespace writes to it
	past                   // a cluster of this namespace wrote to it, and writes to another since
	elsewhere              // a cluster of another namespace has it
	unknown                // it may belong to somebody else: its writer can't be looked for, or wrote or appeared lately
	gone                   // who wrote it was looked for, and is not in this Kubernetes
)

// settled is the time for which nothing is removed from a lineage whose writer is not in this Kubernetes, since it was
// written last and since it was seen first.
const settled = 24 * time.Hour

// facts are what Kubernetes knows of a repository.
type facts struct {
	backups  []v1alpha1.Backup // of the namespace
	clusters map[string]*v1alpha1.PostgresCluster
	// hidden are the clusters, by UID, that could not be looked for, with the reason.
	hidden map[string]string
	// seen says since when each lineage is known here.
	seen map[string]time.Time
	repo string
	ns   string
}

// gather reads past the cache: what is not known here is deleted.
func gather(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, lineages []inventory.Lineage) (*facts, error) {
	f := &facts{clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{}, repo: repo.Name, ns: repo.Namespace}
	backups, clusters := &v1alpha1.BackupList{}, &v1alpha1.PostgresClusterList{}
	for _, list := range []client.ObjectList{backups, clusters} {
		if err := reader.List(ctx, list, client.InNamespace(repo.Namespace)); err != nil {
			return nil, fmt.Errorf("list what uses the repository: %w", err)
		}
	}
	f.backups = backups.Items
	for i := range clusters.Items {
		f.clusters[string(clusters.Items[i].UID)] = &clusters.Items[i]
	}
	for i := range lineages {
		if err := f.lookFor(ctx, reader, lineages[i].Writer); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// lookFor looks for a writer that is not in the namespace. That it isn't found counts only if it could be looked for.
func (f *facts) lookFor(ctx context.Context, reader client.Reader, writer repository.Writer) error {
	switch {
	case f.clusters[writer.UID] != nil:
		return nil
	case writer.Name == "" || writer.Namespace == "":
		f.hidden[writer.UID] = "of which the repository does not record name and namespace"
		return nil
	case writer.Namespace == f.ns:
		return nil
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: writer.Namespace, Name: writer.Name}, cluster)
	switch {
	case err == nil:
		f.clusters[string(cluster.UID)] = cluster
	case apierrors.IsForbidden(err):
		f.hidden[writer.UID] = "which the backup-controller is not allowed to look for"
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read PostgresCluster %s/%s: %w", writer.Namespace, writer.Name, err)
	}
	return nil
}

// owner says whose a lineage is, and in a sentence why nothing is removed from it, if it may be somebody else's.
func (f *facts) owner(l *inventory.Lineage, now time.Time) (owner, string) {
	cluster, name := f.clusters[l.Writer.UID], l.Lineage.Lineage
	switch {
	case cluster != nil && cluster.Namespace != f.ns:
		return elsewhere, fmt.Sprintf("Lineage %s belongs to PostgresCluster %s/%s, and is left to that namespace.", name, cluster.Namespace, cluster.Name)
	case cluster != nil && f.writes(cluster, name):
		return living, ""
	case cluster != nil:
		return past, ""
	case f.hidden[l.Writer.UID] != "":
		return unknown, fmt.Sprintf("Nothing is removed from lineage %s: it may belong to %v, %s. Delete Backups of it by name if nobody needs them.",
			name, l.Writer, f.hidden[l.Writer.UID])
	}
	if since := latest(l.LastWritten, f.seen[name]); now.Sub(since) < settled {
		return unknown, fmt.Sprintf("Nothing is removed from lineage %s before %s: %v, which wrote it, is not in this Kubernetes, and may still write. spec.retention applies %d hours after the lineage was first seen and last written.",
			name, since.Add(settled).UTC().Format(time.RFC3339), l.Writer, settled/time.Hour)
	}
	return gone, ""
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// writes says that a cluster may write to a lineage of this repository now.
func (f *facts) writes(cluster *v1alpha1.PostgresCluster, lineage string) bool {
	if archive := cluster.Spec.Archive; archive != nil && archive.Repository.Name != f.repo &&
		(cluster.Status.Archive == nil || cluster.Status.Archive.Repository != f.repo) {
		return false
	}
	now := protocol.Lineage(cluster.Status.SystemIdentifier, cluster.Status.DataGeneration)
	return now == "" || now == lineage
}

// object is the Backup of a backup in this repository, or nil.
func (f *facts) object(lineage, id string) *v1alpha1.Backup {
	for i := range f.backups {
		b := &f.backups[i]
		if plan := b.Status.Plan; plan != nil && plan.Repository == f.repo && plan.Lineage == lineage && plan.ID == id {
			return b
		}
		if found := b.Spec.Found; found != nil && found.Repository == f.repo && found.Lineage == lineage && found.ID == id {
			return b
		}
	}
	return nil
}

// damaged says that a check has found the backup's data wrong.
func damaged(b *v1alpha1.Backup) bool {
	verified := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionVerified)
	return verified != nil && verified.Status == metav1.ConditionFalse && verified.Reason == v1alpha1.ReasonDataCorrupt
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
