package protocol

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// CreatesLogins says whether the db-controller makes the Secrets with the logins of a cluster by now, or what is missing in
// them. Those of a cluster that begins with a Restore may come out of the backup, so until the data is adopted they are the
// restore-controller's to make.
func CreatesLogins(cluster *v1alpha1.PostgresCluster) bool {
	bootstrap := cluster.Spec.Bootstrap
	return bootstrap == nil || bootstrap.Restore == nil || cluster.Status.SystemIdentifier != ""
}

// LoginOwner is the owner of a Secret that a Restore makes for its new cluster, so that it goes with the cluster. The
// db-controller takes those that it would have made itself (own) for its own; another one is of a declared role, and only
// lives as long.
func LoginOwner(cluster *v1alpha1.PostgresCluster, own bool) metav1.OwnerReference {
	owner := metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindPostgresCluster, Name: cluster.Name, UID: cluster.UID,
	}
	if own {
		owner.Controller = &own
	}
	return owner
}

// LoginsOf says whether a Secret that is there may hold logins of this cluster: it is controlled by it.
func LoginsOf(cluster *v1alpha1.PostgresCluster, secret metav1.Object) bool {
	return cluster != nil && metav1.IsControlledBy(secret, cluster)
}
