// Package ownership says whose a lineage in a bucket is, as far as this Kubernetes knows. Not to be found is not to be gone:
// only a writer that could be looked for, and has been silent for a while, counts as gone.
package ownership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/protocol"
)

// Owner says who a lineage belongs to.
type Owner int

// The owners.
const (
	Living    Owner = iota // a cluster of this namespace writes to it
	Past                   // a cluster of this namespace wrote to it, and writes to another since
	Elsewhere              // a cluster of another namespace has it
	Unknown                // it may belong to somebody else: its writer can't be looked for
	Unsettled              // who wrote it was looked for, and is not in this Kubernetes, but the lineage was written or seen first lately
	Gone                   // who wrote it was looked for, and is not in this Kubernetes
)

// Foreign says that nothing may be removed from the lineage here.
func (o Owner) Foreign() bool { return o == Elsewhere || o == Unknown || o == Unsettled }

// Absent says that no cluster is known here that writes or wrote the lineage.
func (o Owner) Absent() bool { return o == Gone || o == Unknown || o == Unsettled }

// Settled is the time for which nothing is removed from a lineage whose writer is not in this Kubernetes, since it was
// written last and since it was seen first.
const Settled = 24 * time.Hour

// Writers are the clusters of one repository's lineages.
type Writers struct {
	namespace, repository string
	clusters              map[string]*v1alpha1.PostgresCluster // by the identity that they write under
	hidden                map[string]string                    // those that could not be looked for, with the reason
	others                map[string]bool                      // BackupRepositories of the namespace that are the same place; those that are not read-only
	neighbours            map[string]map[string]string         // names of clusters by their identity, of other namespaces, as far as they were asked for
}

// Look looks for the clusters that write to lineages of a repository. The reader must not be a cache: what is not known here may be
// deleted.
func Look(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository, lineages ...layout.Lineage) (*Writers, error) {
	w := &Writers{
		namespace: repo.Namespace, repository: repo.Name, clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{},
		others: map[string]bool{},
	}
	if err := w.lookForOthers(ctx, reader, repo); err != nil {
		return nil, err
	}
	clusters := &v1alpha1.PostgresClusterList{}
	if err := reader.List(ctx, clusters, client.InNamespace(repo.Namespace)); err != nil {
		return nil, fmt.Errorf("list PostgresClusters: %w", err)
	}
	for i := range clusters.Items {
		w.clusters[string(clusters.Items[i].Identity())] = &clusters.Items[i]
	}
	for i := range lineages {
		if err := w.lookFor(ctx, reader, lineages[i].Writer); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// lookForOthers looks for other names that the same place has.
func (w *Writers) lookForOthers(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) error {
	repositories := &v1alpha1.BackupRepositoryList{}
	if err := reader.List(ctx, repositories, client.InNamespace(repo.Namespace)); err != nil {
		return fmt.Errorf("list BackupRepositories: %w", err)
	}
	for i := range repositories.Items {
		if other := &repositories.Items[i]; other.Name != repo.Name && samePlace(repo, other) {
			w.others[other.Name] = !other.Spec.ReadOnly
		}
	}
	return nil
}

// samePlace says whether two BackupRepositories are one repository. A server can have several addresses: then their identity says it.
func samePlace(a, b *v1alpha1.BackupRepository) bool {
	one, other, identity := a.Spec.S3, b.Spec.S3, a.Status.Identity
	if one.Bucket != other.Bucket || strings.Trim(one.Prefix, "/") != strings.Trim(other.Prefix, "/") {
		return false
	}
	return strings.TrimRight(one.Endpoint, "/") == strings.TrimRight(other.Endpoint, "/") || identity != "" && identity == b.Status.Identity
}

// Same says whether a BackupRepository is another name of the same place, and whether something can be deleted there by that.
func (w *Writers) Same(repository string) (same, writable bool) {
	if w == nil {
		return false, false
	}
	writable, same = w.others[repository]
	return same, writable
}

// lookFor looks for a writer that is not in the namespace. That it isn't found counts only if it could be looked for. A cluster of the
// namespace may have taken the writer's volumes over; but whoever can label a volume can claim that, so it counts only once the writer is
// not there any more, and nobody in its own namespace has taken it over.
func (w *Writers) lookFor(ctx context.Context, reader client.Reader, writer layout.Writer) error {
	switch {
	case writer.Name == "" || writer.Namespace == "":
		if w.clusters[writer.UID] == nil {
			w.hidden[writer.UID] = "whose name and namespace the repository does not record"
		}
		return nil
	case writer.Namespace == w.namespace:
		return nil
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: writer.Namespace, Name: writer.Name}, cluster)
	if apierrors.IsNotFound(err) || err == nil && string(cluster.Identity()) != writer.UID {
		cluster, err = w.heir(ctx, reader, writer)
	}
	switch {
	case apierrors.IsForbidden(err):
		w.hidden[writer.UID] = "which the backup-controller is not allowed to read"
	case err != nil:
		return fmt.Errorf("read PostgresCluster %s/%s: %w", writer.Namespace, writer.Name, err)
	case cluster != nil:
		w.clusters[writer.UID] = cluster
	}
	return nil
}

// heir is the cluster of the writer's namespace that has taken over its volumes under another name, or nil.
func (w *Writers) heir(ctx context.Context, reader client.Reader, writer layout.Writer) (*v1alpha1.PostgresCluster, error) {
	names, known := w.neighbours[writer.Namespace]
	if !known {
		clusters := &v1alpha1.PostgresClusterList{}
		if err := reader.List(ctx, clusters, client.InNamespace(writer.Namespace)); err != nil {
			return nil, err
		}
		names = map[string]string{}
		for i := range clusters.Items {
			names[string(clusters.Items[i].Identity())] = clusters.Items[i].Name
		}
		if w.neighbours == nil {
			w.neighbours = map[string]map[string]string{}
		}
		w.neighbours[writer.Namespace] = names
	}
	name, there := names[writer.UID]
	if !there {
		return nil, nil
	}
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: writer.Namespace, Name: name}}, nil
}

// Known says that the cluster that wrote or writes as this writer is in this Kubernetes.
func (w *Writers) Known(writer layout.Writer) bool { return w.clusters[writer.UID] != nil }

// Owner says whose a lineage is that was written or first seen at a time, whichever was later; and in a sentence why nothing is
// removed from it, if it is Foreign.
func (w *Writers) Owner(lineage layout.Lineage, lately, now time.Time) (Owner, string) {
	cluster, name, writer := w.clusters[lineage.Writer.UID], lineage.Lineage, lineage.Writer
	switch {
	case cluster != nil && cluster.Namespace != w.namespace:
		return Elsewhere, fmt.Sprintf("Lineage %s belongs to PostgresCluster %s/%s. Its backups are managed in that namespace.", name, cluster.Namespace, cluster.Name)
	case cluster != nil && w.writes(cluster, name):
		return Living, ""
	case cluster != nil && w.writesBy(cluster, name) != "":
		return Elsewhere, fmt.Sprintf("Lineage %s belongs to PostgresCluster %s, which archives to BackupRepository %s, the same place. Its backups are managed there.",
			name, cluster.Name, w.writesBy(cluster, name))
	case cluster != nil:
		return Past, ""
	case w.hidden[writer.UID] != "":
		return Unknown, fmt.Sprintf("Nothing is removed from lineage %s: it may belong to %v, %s.", name, writer, w.hidden[writer.UID])
	case now.Sub(lately) < Settled:
		return Unsettled, fmt.Sprintf("Nothing is removed from lineage %s before %s: %v, which wrote it, is not in this Kubernetes cluster, but may still write. It counts as deleted %d hours after the lineage was first seen and last written.",
			name, lately.Add(Settled).UTC().Format(time.RFC3339), writer, Settled/time.Hour)
	}
	return Gone, ""
}

// writes says that a cluster may write to a lineage of the repository now.
func (w *Writers) writes(cluster *v1alpha1.PostgresCluster, lineage string) bool {
	return mayWrite(cluster, lineage) && (cluster.Spec.Archive == nil || slices.Contains(repositoriesOf(cluster), w.repository))
}

// writesBy is the other name of the repository by which a cluster may write to a lineage now; empty: it doesn't.
func (w *Writers) writesBy(cluster *v1alpha1.PostgresCluster, lineage string) string {
	for _, repository := range repositoriesOf(cluster) {
		if w.others[repository] && mayWrite(cluster, lineage) {
			return repository
		}
	}
	return ""
}

// repositoriesOf a cluster are those that it archives to, or is about to.
func repositoriesOf(cluster *v1alpha1.PostgresCluster) (names []string) {
	if cluster.Spec.Archive != nil {
		names = append(names, cluster.Spec.Archive.Repository.Name)
	}
	if cluster.Status.Archive != nil {
		names = append(names, cluster.Status.Archive.Repository)
	}
	return names
}

func mayWrite(cluster *v1alpha1.PostgresCluster, lineage string) bool {
	now := protocol.Lineage(cluster.Status.SystemIdentifier, cluster.Status.DataGeneration)
	return now == "" || now == lineage
}
