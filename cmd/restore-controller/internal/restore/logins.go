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
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/volumelock"
)

// secretsOf names the Secrets that a backup has for the new cluster. It has that of a superuser only if it may log in. Honest backups have
// none in a repository without encryption; what is there anyway could be anybody's, and is not taken.
func (p provenance) secretsOf(header *backup.Header, restore *v1alpha1.Restore, spec *v1alpha1.PostgresClusterSpec) (names, dropped []string) {
	if !p.trusted {
		if len(header.Cluster.Secrets) > 0 {
			dropped = []string{"secrets"}
		}
		return nil, dropped
	}
	cluster, into := restore.Spec.Destination.ClusterName(), restore.Spec.Destination.NewCluster
	for _, secret := range repostore.Secrets(header, restore.Namespace, cluster) {
		if into != nil && into.Temporary && secret.Name != protocol.AppSecret(cluster) && secret.Name != protocol.SuperuserSecret(cluster) {
			continue // of a declared role: where it is missing, the cluster that was backed up would take it for its own
		}
		if secret.Name != protocol.SuperuserSecret(cluster) || spec.SuperuserAccess {
			names = append(names, secret.Name)
		}
	}
	return names, nil
}

// ownLogins are the names that the new cluster needs for itself; with those of other Secrets of the backup, of declared
// roles, it does as they are.
func (o *observed) ownLogins() []string {
	name := o.restore.Spec.Destination.ClusterName()
	return []string{protocol.AppSecret(name), protocol.SuperuserSecret(name)}
}

// observeLogins reads the Secrets of the new cluster, until its volumes are requested. By then they all exist.
func (r *Reconciler) observeLogins(ctx context.Context, o *observed) error {
	status := &o.restore.Status
	if o.restore.Spec.Destination.NewCluster == nil || o.ended() || o.deleting() || status.Failure != nil || status.VolumeLockRequest != nil {
		return nil
	}
	names := []string{protocol.AppSecret(o.restore.Spec.Destination.ClusterName())}
	if status.Plan != nil {
		names = append(names, status.Plan.Secrets...)
	}
	o.logins = map[string]*corev1.Secret{}
	for _, name := range slices.Compact(names) {
		found, err := find(ctx, r.Live, o.restore, name, &corev1.Secret{})
		if err != nil {
			return err
		}
		if found != nil {
			o.logins[name] = found
		}
	}
	return nil
}

// takenLogin is the name of a Secret that the new cluster needs for itself and that is somebody else's; empty: none.
func (o *observed) takenLogin() string {
	for _, name := range o.ownLogins() {
		if secret := o.logins[name]; secret != nil && !protocol.LoginsOf(o.cluster, secret) && !o.leftBehind(secret) {
			return name
		}
	}
	return ""
}

// leftBehind says that a Secret is of a former cluster of the name, and is about to be removed.
func (o *observed) leftBehind(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	return owner != nil && owner.Kind == v1alpha1.KindPostgresCluster && owner.Name == o.restore.Spec.Destination.ClusterName() &&
		(o.cluster == nil || owner.UID != o.cluster.UID)
}

// awaitNamesFree waits until what a former cluster of the name has left is deleted.
func awaitNamesFree(_ context.Context, o *observed) flow.Outcome {
	for _, name := range o.ownLogins() {
		if secret := o.logins[name]; secret != nil && o.leftBehind(secret) {
			return flow.Poll(2*time.Second, v1alpha1.ReasonAwaitingNames, fmt.Sprintf(
				"Waiting until Secret %s of a former PostgresCluster %s is deleted.", name, o.restore.Spec.Destination.ClusterName()))
		}
	}
	return flow.Next
}

// ensureLogins creates the Secrets that the backup has and that don't exist, before the db-controller would create its own.
func (r *Reconciler) ensureLogins(ctx context.Context, o *observed) flow.Outcome {
	there := func(name string) bool { return o.logins[name] != nil }
	switch {
	case o.restore.Status.VolumeLockRequest != nil || !slices.ContainsFunc(o.restore.Status.Plan.Secrets, func(name string) bool { return !there(name) }):
		return flow.Next
	case o.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s was deleted. Create it again.", o.repositoryName()))
	}
	header, outcome := r.readHeader(o)
	switch {
	case outcome.Stopped(): // the cluster already exists
		o.restore.Status.Failure = volumelock.Fail(outcome.Reason, "%s", outcome.Message)
		return flow.Save(v1alpha1.ReasonRollingBack, outcome.Message)
	case header == nil:
		return outcome
	}
	for _, secret := range repostore.Secrets(header, o.cluster.Namespace, o.cluster.Name) {
		if there(secret.Name) || !slices.Contains(o.restore.Status.Plan.Secrets, secret.Name) {
			continue
		}
		secret.Labels = map[string]string{v1alpha1.LabelCluster: o.cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		secret.OwnerReferences = []metav1.OwnerReference{protocol.LoginOwner(o.cluster, slices.Contains(o.ownLogins(), secret.Name))}
		if err := r.Client.Create(ctx, secret); err != nil { // who created it meanwhile is seen in the next pass
			return flow.Retry(fmt.Errorf("create Secret %s: %w", secret.Name, err))
		}
	}
	return flow.Next
}
