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
	"howdah.dev/howdah/pkg/protocol"
)

// owner says who a lineage belongs to.
type owner int

const (
	living    owner = iota // a cluster of this namespace writes to it
	past                   // a cluster of this namespace wrote to it, and writes to another since
	elsewhere              // a cluster of another namespace has it
	unknown                // it was written a short time ago, by nobody that this Kubernetes knows
	gone                   // who wrote it is gone
)

// settled is the time without a write after which a lineage whose writer is not to be found counts as left.
const settled = 24 * time.Hour

// facts are what Kubernetes knows of a repository.
type facts struct {
	backups  []v1alpha1.Backup // of the namespace
	clusters map[string]*v1alpha1.PostgresCluster
	repo     string
	ns       string
}

// gather reads past the cache: what is not known here is deleted.
func gather(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, lineages []inventory.Lineage) (*facts, error) {
	f := &facts{clusters: map[string]*v1alpha1.PostgresCluster{}, repo: repo.Name, ns: repo.Namespace}
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
	for _, l := range lineages {
		if l.Writer.Namespace == repo.Namespace || l.Writer.Name == "" || f.clusters[l.Writer.UID] != nil {
			continue
		}
		cluster := &v1alpha1.PostgresCluster{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: l.Writer.Namespace, Name: l.Writer.Name}, cluster)
		switch {
		case err == nil:
			f.clusters[string(cluster.UID)] = cluster
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read PostgresCluster %s/%s: %w", l.Writer.Namespace, l.Writer.Name, err)
		}
	}
	return f, nil
}

// owner says whose a lineage is, and in a sentence why nothing is removed from it, if it is not ours.
func (f *facts) owner(l *inventory.Lineage, now time.Time) (owner, string) {
	cluster := f.clusters[l.Writer.UID]
	switch {
	case cluster != nil && cluster.Namespace != f.ns:
		return elsewhere, fmt.Sprintf("Lineage %s belongs to PostgresCluster %s/%s, and is left to that namespace.", l.Lineage.Lineage, cluster.Namespace, cluster.Name)
	case cluster != nil && f.writes(cluster, l.Lineage.Lineage):
		return living, ""
	case cluster != nil:
		return past, ""
	case now.Sub(l.LastWritten) < settled:
		return unknown, fmt.Sprintf("Lineage %s of %s was written %s ago by a cluster that is not here; nothing is removed from it until it was left alone for %s.",
			l.Lineage.Lineage, l.Writer.Name, now.Sub(l.LastWritten).Round(time.Minute), settled)
	}
	return gone, ""
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
