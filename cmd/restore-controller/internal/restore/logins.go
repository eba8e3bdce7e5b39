package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repository"
)

// secretsOf names the Secrets that a backup has for the new cluster. It has that of a superuser only if it may log in.
func secretsOf(head *backup.Head, restore *v1alpha1.Restore, spec *v1alpha1.PostgresClusterSpec) []string {
	var names []string
	cluster, into := restore.Spec.Destination.ClusterName(), restore.Spec.Destination.NewCluster
	for _, secret := range repository.Secrets(head, restore.Namespace, cluster) {
		if into != nil && into.Temporary && secret.Name != protocol.AppSecret(cluster) && secret.Name != protocol.SuperuserSecret(cluster) {
			continue // of a declared role: where it is missing, the cluster that was backed up would take it for its own
		}
		if secret.Name != protocol.SuperuserSecret(cluster) || spec.SuperuserAccess {
			names = append(names, secret.Name)
		}
	}
	return names
}

// ownLogins are the names that the new cluster needs for itself; with those of other Secrets of the backup, of declared
// roles, it does as they are.
func (w *world) ownLogins() []string {
	name := w.restore.Spec.Destination.ClusterName()
	return []string{protocol.AppSecret(name), protocol.SuperuserSecret(name)}
}

// observeLogins reads the Secrets of the new cluster, until its volume is asked for. By then they are all there.
func (r *Reconciler) observeLogins(ctx context.Context, w *world) error {
	status := &w.restore.Status
	if w.inPlace() || w.ended() || w.deleting() || status.Failure != nil || status.VolumeLockRequest != nil {
		return nil
	}
	names := []string{protocol.AppSecret(w.restore.Spec.Destination.ClusterName())}
	if status.Plan != nil {
		names = append(names, status.Plan.Secrets...)
	}
	w.logins = map[string]*corev1.Secret{}
	for _, name := range slices.Compact(names) {
		found, err := find(ctx, r.live, w.restore, name, &corev1.Secret{})
		if err != nil {
			return err
		}
		if found != nil {
			w.logins[name] = found
		}
	}
	return nil
}

// takenLogin is the name of a Secret that the new cluster needs for itself and that is somebody else's; empty: none.
func (w *world) takenLogin() string {
	for _, name := range w.ownLogins() {
		if secret := w.logins[name]; secret != nil && !protocol.LoginsOf(w.cluster, secret) && !w.leftBehind(secret) {
			return name
		}
	}
	return ""
}

// leftBehind says that a Secret is of a former cluster of the name, and is about to be removed.
func (w *world) leftBehind(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	return owner != nil && owner.Kind == v1alpha1.KindPostgresCluster && owner.Name == w.restore.Spec.Destination.ClusterName() &&
		(w.cluster == nil || owner.UID != w.cluster.UID)
}

// awaitNamesFree waits until what a former cluster of the name has left is gone.
func (r *Reconciler) awaitNamesFree(_ context.Context, w *world) flow.Outcome {
	for _, name := range w.ownLogins() {
		if secret := w.logins[name]; secret != nil && w.leftBehind(secret) {
			return flow.Poll(2*time.Second, v1alpha1.ReasonAwaitingNames, fmt.Sprintf(
				"waiting until Secret %s of a former PostgresCluster %s is gone", name, w.restore.Spec.Destination.ClusterName()))
		}
	}
	return flow.Next
}

// ensureLogins makes the Secrets that the backup has and that aren't there, before the db-controller would make its own.
func (r *Reconciler) ensureLogins(ctx context.Context, w *world) flow.Outcome {
	there := func(name string) bool { return w.logins[name] != nil }
	switch {
	case w.restore.Status.VolumeLockRequest != nil || !slices.ContainsFunc(w.restore.Status.Plan.Secrets, func(name string) bool { return !there(name) }):
		return flow.Next
	case w.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s is gone; make it again", w.repositoryName()))
	}
	head, outcome := r.readHead(w)
	switch {
	case outcome.Stopped(): // the cluster is made already
		w.restore.Status.Failure = &v1alpha1.RestoreFailure{Reason: outcome.Reason, Message: outcome.Message}
		return flow.Save(v1alpha1.ReasonDeleting, "giving up: "+outcome.Message)
	case head == nil:
		return outcome
	}
	for _, secret := range repository.Secrets(head, w.cluster.Namespace, w.cluster.Name) {
		if there(secret.Name) || !slices.Contains(w.restore.Status.Plan.Secrets, secret.Name) {
			continue
		}
		secret.Labels = map[string]string{v1alpha1.LabelCluster: w.cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		secret.OwnerReferences = []metav1.OwnerReference{protocol.LoginOwner(w.cluster, slices.Contains(w.ownLogins(), secret.Name))}
		if err := r.writer.Create(ctx, secret); err != nil { // who made it meanwhile is seen in the next pass
			return flow.Retry(fmt.Errorf("create Secret %s: %w", secret.Name, err))
		}
	}
	return flow.Next
}
