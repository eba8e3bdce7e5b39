// Package identity builds what the pods of a cluster are to the API server: they may write the address of the primary, the
// lease that they elect over, and labels of their own pods.
package identity

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	meta := component.Meta(cluster, component.NamesOf(cluster).Identity(), workload.ComponentInstance)
	workload.Adorn(&meta, nil, cluster.Spec.Pods.ServiceAccountAnnotations)
	return &corev1.ServiceAccount{ObjectMeta: meta, AutomountServiceAccountToken: ptr.To(true)}
}

// Role of this many instances. Each object is named: a pod can touch nothing else. The db-controller must hold what it
// gives here.
func Role(cluster *v1alpha1.PostgresCluster, instances int) *rbacv1.Role {
	names := component.NamesOf(cluster)
	pods := make([]string, instances)
	for i := range pods {
		pods[i] = names.Instance(i)
	}
	role := &rbacv1.Role{
		ObjectMeta: component.Meta(cluster, names.Identity(), workload.ComponentInstance),
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"},
				ResourceNames: []string{names.Primary()}, Verbs: []string{"get", "patch", "update"},
			},
			{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				// The holder creates one that was deleted, by server-side apply, which has a name.
				ResourceNames: []string{names.Lease()}, Verbs: []string{"get", "list", "watch", "patch", "create"},
			},
			{
				APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"},
				ResourceNames: pods, Verbs: []string{"get", "patch"},
			},
		},
	}
	if secrets := namedInEnv(cluster.Spec.Pods.Env); secrets != "" {
		// This verb lets nobody read them. It is how the admission policies know which Secrets the variables of a Job may come from that
		// was created by a controller without a right to read Secrets.
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: []string{secrets}, Verbs: []string{"use"},
		})
	}
	return role
}

// namedInEnv are the Secrets that variables come from, in their order, as one name: a policy can't ask about each.
func namedInEnv(env []v1alpha1.EnvVar) string {
	var names []string
	for _, v := range env {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			names = append(names, v.ValueFrom.SecretKeyRef.Name)
		}
	}
	return strings.Join(names, ",")
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
