// Package identity builds what the pods of a cluster are to the API server: they may write one EndpointSlice.
package identity

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/pkg/workload"
)

// Account is the ServiceAccount of the instances.
func Account(cluster *v1alpha1.PostgresCluster) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta:                   component.Meta(cluster, component.NamesOf(cluster).Identity(), workload.ComponentInstance),
		AutomountServiceAccountToken: ptr.To(true),
	}
}

// Role may write the address of the primary, and nothing else. The db-controller must hold what it gives here.
func Role(cluster *v1alpha1.PostgresCluster) *rbacv1.Role {
	names := component.NamesOf(cluster)
	return &rbacv1.Role{
		ObjectMeta: component.Meta(cluster, names.Identity(), workload.ComponentInstance),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"},
			ResourceNames: []string{names.Primary()}, Verbs: []string{"get", "patch", "update"},
		}},
	}
}

// Binding of the two.
func Binding(cluster *v1alpha1.PostgresCluster) *rbacv1.RoleBinding {
	name := component.NamesOf(cluster).Identity()
	return &rbacv1.RoleBinding{
		ObjectMeta: component.Meta(cluster, name, workload.ComponentInstance),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: cluster.Namespace}},
	}
}
