package orphan

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
)

// kinds of the objects that a database consists of and that Kubernetes would delete with their owner. Pods belong to the StatefulSet, and
// volumes to nobody.
var kinds = map[string]schema.GroupVersion{
	"ConfigMap": corev1.SchemeGroupVersion, "Secret": corev1.SchemeGroupVersion, "Service": corev1.SchemeGroupVersion, "ServiceAccount": corev1.SchemeGroupVersion,
	"Role": rbacv1.SchemeGroupVersion, "RoleBinding": rbacv1.SchemeGroupVersion, "EndpointSlice": discoveryv1.SchemeGroupVersion,
	"Lease": coordinationv1.SchemeGroupVersion, "NetworkPolicy": networkingv1.SchemeGroupVersion, "PodDisruptionBudget": policyv1.SchemeGroupVersion,
	"StatefulSet": appsv1.SchemeGroupVersion,
}

// Part is an object of a kind and a name, to be read.
func Part(kind, name string) *metav1.PartialObjectMetadata {
	part := &metav1.PartialObjectMetadata{}
	part.SetGroupVersionKind(kinds[kind].WithKind(kind))
	part.SetName(name)
	return part
}

// Parts are all objects that may belong to a cluster, and those of a record besides; nil: there is none.
func Parts(cluster *v1alpha1.PostgresCluster, record *Record) []*metav1.PartialObjectMetadata {
	n := component.NamesOf(cluster)
	var parts []*metav1.PartialObjectMetadata
	known := map[Object]bool{}
	add := func(kind string, names ...string) {
		for _, name := range names {
			if object := (Object{Kind: kind, Name: name}); !known[object] {
				known[object] = true
				parts = append(parts, Part(kind, name))
			}
		}
	}
	add("StatefulSet", n.StatefulSet())
	add("Secret", n.Secrets()...)
	for _, role := range cluster.Spec.Roles {
		if role.CertificateSecret != nil {
			add("Secret", role.CertificateSecret.Name)
		}
		if role.PasswordSecret != nil { // one that a Restore has created is deleted with the cluster
			add("Secret", role.PasswordSecret.Name)
		}
	}
	add("ConfigMap", n.Config(), n.Connection())
	add("ServiceAccount", n.Identity())
	add("Role", n.Identity())
	add("RoleBinding", n.Identity())
	add("Service", n.Primary(), n.Replicas(), n.Any(), n.Pods())
	for _, service := range cluster.Spec.Services.Additional {
		add("Service", n.Additional(service.Name))
	}
	add("EndpointSlice", n.Primary())
	add("Lease", n.Lease())
	add("PodDisruptionBudget", n.DisruptionBudget())
	add("NetworkPolicy", n.NetworkPolicy())
	if record != nil {
		for _, object := range record.Objects {
			add(object.Kind, object.Name)
		}
	}
	return parts
}
