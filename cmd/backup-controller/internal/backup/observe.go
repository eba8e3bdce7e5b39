package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// observed is what one pass has seen.
type observed struct {
	backup *v1alpha1.Backup
	now    time.Time
	// endedBefore: it had ended before this pass.
	endedBefore bool
	// cluster to back up, repository that it archives to, and repository that the plan names; nil where they don't exist.
	cluster         *v1alpha1.PostgresCluster
	wanted, planned *v1alpha1.BackupRepository
	// instance is the pod that the plan reads beside, where its Job is yet to be created, or waits for a node; nil: it doesn't exist.
	instance *corev1.Pod
	// ahead is the Backup of the same cluster that goes first, nil if this one may go.
	ahead *v1alpha1.Backup
	// siblings are the Backups of the namespace, itself among them. They are shared with the cache, so nobody changes them.
	siblings []v1alpha1.Backup
	// job of the plan, and previous that of the attempt before it.
	job, previous workload.State
	// namespaceGoes: the Backup is deleted with all that is in its namespace. Its data stays then: the Secret that leads to
	// it may be gone already, and who deletes a namespace by mistake can have the databases back.
	namespaceGoes bool
	// outdated says why the plan can't be carried out any more; empty while it can.
	outdated string
}

func (o *observed) deleting() bool { return !o.backup.DeletionTimestamp.IsZero() }
func (o *observed) ended() bool    { return o.backup.Status.CompletedAt != nil }

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, backup *v1alpha1.Backup) (*observed, error) {
	o := &observed{backup: backup, now: r.Now(), endedBefore: backup.Status.CompletedAt != nil}
	if err := r.observeJobs(ctx, o); err != nil {
		return o, err
	}
	if o.ended() && !o.deleting() {
		return o, nil
	}
	if err := r.observeNamespace(ctx, o); err != nil {
		return o, err
	}
	if err := r.observeCluster(ctx, o); err != nil {
		return o, err
	}
	if err := r.observeInstance(ctx, o); err != nil {
		return o, err
	}
	if err := r.observeRepositories(ctx, o); err != nil {
		return o, err
	}
	if o.outdated = outdated(backup.Status.Plan, o.cluster); o.outdated == "" {
		o.outdated = o.unreachable()
	}
	siblings := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, siblings, client.InNamespace(backup.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return o, fmt.Errorf("list Backups: %w", err)
	}
	o.siblings = siblings.Items
	o.ahead = ahead(backup, o.siblings)
	return o, nil
}

func (r *Reconciler) observeNamespace(ctx context.Context, o *observed) error {
	if !o.deleting() {
		return nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Live.Get(ctx, client.ObjectKey{Name: o.backup.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Namespace %s: %w", o.backup.Namespace, err)
	}
	o.namespaceGoes = err != nil || !namespace.DeletionTimestamp.IsZero()
	return nil
}

func (r *Reconciler) observeJobs(ctx context.Context, o *observed) (err error) {
	plan := o.backup.Status.Plan
	if plan == nil {
		return nil
	}
	reader := client.Reader(r.Client)
	if o.deleting() || o.backup.Spec.Cancel && !o.ended() {
		reader = r.Live // a Job that the cache doesn't know yet must not be left running
	}
	if o.job, err = workload.Observe(ctx, reader, r.Live, o.backup, jobName(o.backup, plan.Attempt)); err != nil {
		return err
	}
	o.job.ExplainBy(ctx, r.Live, o.backup.Namespace, workload.Resources{Field: "spec.resources"})
	if plan.Attempt > 1 {
		o.previous, err = workload.Observe(ctx, reader, r.Live, o.backup, jobName(o.backup, plan.Attempt-1))
	}
	return err
}

// observeCluster asks the API server itself before it believes that there is no such cluster: the two may have been
// made by one command, and the Backup's end would be for good.
func (r *Reconciler) observeCluster(ctx context.Context, o *observed) error {
	cluster := &v1alpha1.PostgresCluster{}
	key := client.ObjectKey{Namespace: o.backup.Namespace, Name: o.backup.Spec.Cluster.Name}
	err := r.Client.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, cluster)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PostgresCluster %s: %w", key.Name, err)
	}
	o.cluster = cluster
	return nil
}

// observeInstance reads the pod that the Job is to run beside, of which the cache knows nothing.
func (r *Reconciler) observeInstance(ctx context.Context, o *observed) error {
	plan := o.backup.Status.Plan
	if plan == nil || o.job.Exists && !o.job.Unplaced() || o.ended() || o.deleting() {
		return nil
	}
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.backup.Namespace, Name: plan.Instance}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s: %w", plan.Instance, err)
	}
	o.instance = pod
	return nil
}

func (r *Reconciler) observeRepositories(ctx context.Context, o *observed) (err error) {
	if plan := o.backup.Status.Plan; plan != nil {
		if o.planned, err = r.readRepository(ctx, o.backup.Namespace, plan.Repository); err != nil {
			return err
		}
	}
	if o.cluster != nil && o.cluster.Spec.Archive != nil {
		o.wanted, err = r.readRepository(ctx, o.backup.Namespace, o.cluster.Spec.Archive.Repository.Name)
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

// ahead is the first in the queue of a cluster's Backups, if that is another one: who has a plan continues, then the
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

// unreachable says why the Job of a plan will not end by itself.
func (o *observed) unreachable() string {
	plan := o.backup.Status.Plan
	switch {
	case plan == nil:
		return ""
	case o.job.Lost(o.now):
		return fmt.Sprintf("node %s, where its pod runs, does not respond", plan.Node)
	case o.job.Unscheduled(o.now) && withoutPod(plan, o.cluster):
		return fmt.Sprintf("instance %s has no pod, and the Job's pod can't be scheduled", plan.Instance)
	}
	return ""
}

// withoutPod says that the instance of a plan is gone, or has to be created again. Its volume may be on its way out, too: Kubernetes then schedules
// no pod that mounts it, and keeps it for as long as a pod of the Job is there, even one that has failed.
func withoutPod(plan *v1alpha1.BackupPlan, cluster *v1alpha1.PostgresCluster) bool {
	return !slices.ContainsFunc(cluster.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.Name == plan.Instance && i.PodUID != "" })
}

// outdated says why a plan can't be carried out any more: what it wants to read is not there.
func outdated(plan *v1alpha1.BackupPlan, cluster *v1alpha1.PostgresCluster) string {
	switch {
	case plan == nil:
		return ""
	case cluster == nil:
		return "the PostgresCluster was deleted"
	case cluster.Identity() != plan.ClusterUID:
		return "the PostgresCluster was deleted and created again"
	}
	if lineage := protocol.Lineage(cluster.Status.SystemIdentifier, cluster.Status.DataGeneration); lineage != "" && lineage != plan.Lineage {
		return "the cluster has run on other data since it began"
	}
	if archive := cluster.Spec.Archive; archive == nil || archive.Repository.Name != plan.Repository {
		return "the cluster now archives to another repository"
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
