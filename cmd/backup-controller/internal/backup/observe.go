package backup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// world is what one pass has seen.
type world struct {
	backup *v1alpha1.Backup
	now    time.Time
	// cluster to back up, repository that it archives to, and repository that the plan names; nil where they don't exist.
	cluster         *v1alpha1.PostgresCluster
	wanted, planned *v1alpha1.BackupRepository
	// ahead is the Backup of the same cluster that goes first, nil if this one may go.
	ahead *v1alpha1.Backup
	// siblings are the Backups of the namespace, itself among them.
	siblings []v1alpha1.Backup
	// job of the plan, and previous that of the attempt before it.
	job, previous workload.State
	// namespaceGoes: the Backup is deleted with all that is in its namespace. Its data stays then: the Secret that leads to
	// it may be gone already, and who deletes a namespace by mistake can have the databases back.
	namespaceGoes bool
	// outdated says why the plan can't be carried out any more; empty while it can.
	outdated string
}

func (w *world) deleting() bool { return !w.backup.DeletionTimestamp.IsZero() }
func (w *world) ended() bool    { return w.backup.Status.CompletedAt != nil }

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, backup *v1alpha1.Backup) (*world, error) {
	w := &world{backup: backup, now: r.Now()}
	if err := r.observeJobs(ctx, w); err != nil {
		return w, err
	}
	if w.ended() && !w.deleting() {
		return w, nil
	}
	if err := r.observeNamespace(ctx, w); err != nil {
		return w, err
	}
	if err := r.observeCluster(ctx, w); err != nil {
		return w, err
	}
	if err := r.observeRepositories(ctx, w); err != nil {
		return w, err
	}
	w.outdated = outdated(backup.Status.Plan, w.cluster)
	if plan := backup.Status.Plan; plan != nil && w.outdated == "" && w.job.Lost(w.now) {
		w.outdated = fmt.Sprintf("node %s, where its pod runs, does not answer", plan.Node)
	}
	siblings := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, siblings, client.InNamespace(backup.Namespace)); err != nil {
		return w, fmt.Errorf("list Backups: %w", err)
	}
	w.siblings = siblings.Items
	w.ahead = ahead(backup, w.siblings)
	return w, nil
}

func (r *Reconciler) observeNamespace(ctx context.Context, w *world) error {
	if !w.deleting() {
		return nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Reader.Get(ctx, client.ObjectKey{Name: w.backup.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Namespace %s: %w", w.backup.Namespace, err)
	}
	w.namespaceGoes = err != nil || !namespace.DeletionTimestamp.IsZero()
	return nil
}

func (r *Reconciler) observeJobs(ctx context.Context, w *world) (err error) {
	plan := w.backup.Status.Plan
	if plan == nil {
		return nil
	}
	reader := client.Reader(r.Client)
	if w.deleting() || w.backup.Spec.Cancel && !w.ended() {
		reader = r.Reader // a Job that the cache doesn't know yet must not be left running
	}
	if w.job, err = workload.Observe(ctx, reader, r.Reader, w.backup, jobName(w.backup, plan.Attempt)); err != nil {
		return err
	}
	if plan.Attempt > 1 {
		w.previous, err = workload.Observe(ctx, reader, r.Reader, w.backup, jobName(w.backup, plan.Attempt-1))
	}
	return err
}

// observeCluster asks the API server itself before it believes that there is no such cluster: the two may have been
// made by one command, and the Backup's end would be for good.
func (r *Reconciler) observeCluster(ctx context.Context, w *world) error {
	cluster := &v1alpha1.PostgresCluster{}
	key := client.ObjectKey{Namespace: w.backup.Namespace, Name: w.backup.Spec.Cluster.Name}
	err := r.Client.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, cluster)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", key.Name, err)
	}
	w.cluster = cluster
	return nil
}

func (r *Reconciler) observeRepositories(ctx context.Context, w *world) (err error) {
	if plan := w.backup.Status.Plan; plan != nil {
		if w.planned, err = r.readRepository(ctx, w.backup.Namespace, plan.Repository); err != nil {
			return err
		}
	}
	if w.cluster != nil && w.cluster.Spec.Archive != nil {
		w.wanted, err = r.readRepository(ctx, w.backup.Namespace, w.cluster.Spec.Archive.Repository.Name)
	}
	return err
}

func (r *Reconciler) readRepository(ctx context.Context, namespace, name string) (*v1alpha1.BackupRepository, error) {
	repository := &v1alpha1.BackupRepository{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, repository)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read BackupRepository %s: %w", name, err)
	}
	return repository, nil
}

// ahead is the first in the queue of a cluster's Backups, if that is another one: who has a plan goes on, then the
// oldest is next. Two that miss each other in a stale cache run side by side, which PostgreSQL allows.
func ahead(backup *v1alpha1.Backup, all []v1alpha1.Backup) *v1alpha1.Backup {
	first := backup
	for i := range all {
		other := &all[i]
		if other.Spec.Cluster.Name == backup.Spec.Cluster.Name && other.Spec.Found == nil && other.Status.CompletedAt == nil &&
			other.DeletionTimestamp.IsZero() && other.UID != first.UID && before(other, first) {
			first = other
		}
	}
	if first.UID == backup.UID {
		return nil
	}
	return first
}

func before(a, b *v1alpha1.Backup) bool {
	if planned := a.Status.Plan != nil; planned != (b.Status.Plan != nil) {
		return planned
	}
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c < 0
	}
	return a.UID < b.UID
}

// outdated says why a plan can't be carried out any more: what it wants to read is not there.
func outdated(plan *v1alpha1.BackupPlan, cluster *v1alpha1.PostgresCluster) string {
	switch {
	case plan == nil:
		return ""
	case cluster == nil:
		return "the PostgresCluster was deleted"
	case cluster.UID != plan.ClusterUID:
		return "the PostgresCluster was deleted and made anew"
	}
	if lineage := protocol.Lineage(cluster.Status.SystemIdentifier, cluster.Status.DataGeneration); lineage != "" && lineage != plan.Lineage {
		return "the cluster runs on other data since"
	}
	if archive := cluster.Spec.Archive; archive == nil || archive.Repository.Name != plan.Repository {
		return "the cluster archives to another repository since"
	}
	for _, instance := range cluster.Status.Instances {
		if instance.Name != plan.Instance {
			continue
		}
		if instance.Node != "" && instance.Node != plan.Node {
			return fmt.Sprintf("instance %s has moved to node %s", plan.Instance, instance.Node)
		}
		return ""
	}
	return ""
}
