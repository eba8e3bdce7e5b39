package protocol

import (
	"cmp"
	"fmt"
	"slices"

	"howdah.dev/apis/v1alpha1"
)

// mostPoolers of a cluster have a certificate: more names would not fit.
const mostPoolers = 64

// PoolersOf are the names of the Poolers of a cluster, sorted, that need its certificate. The oldest come first where there are too many.
func PoolersOf(cluster *v1alpha1.PostgresCluster, poolers []v1alpha1.Pooler) (names []string) {
	mine := slices.DeleteFunc(slices.Clone(poolers), func(p v1alpha1.Pooler) bool {
		return p.Namespace != cluster.Namespace || p.Spec.Cluster.Name != cluster.Name || !p.DeletionTimestamp.IsZero()
	})
	slices.SortFunc(mine, func(a, b v1alpha1.Pooler) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range mine[:min(len(mine), mostPoolers)] {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// PoolerAdmitted says whether the certificate of a cluster is for a Pooler.
func PoolerAdmitted(cluster *v1alpha1.PostgresCluster, pooler *v1alpha1.Pooler) bool {
	return slices.Contains(cluster.Status.Poolers, pooler.Name)
}

// PoolerSecret has the certificate of all Poolers of a cluster, with which they come to agents, and look passwords up.
func PoolerSecret(cluster string) string { return cluster + "-pooler" }

// PoolerName is the name of the objects of a Pooler.
func PoolerName(pooler string) string { return pooler + "-pooler" }

// PoolerHosts are the names by which clients reach a Pooler. The second is good in the whole Kubernetes cluster.
func PoolerHosts(namespace, pooler string) []string {
	service := PoolerName(pooler)
	host := fmt.Sprintf("%s.%s.svc", service, namespace)
	return []string{service, host, service + "." + namespace, host + ".cluster.local"}
}

// PrimarySlice is the EndpointSlice that leads to the primary of a cluster.
func PrimarySlice(cluster string) string { return cluster + "-rw" }
