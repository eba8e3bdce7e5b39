package manager

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// uncached are kinds that are read straight from the API server: Secrets, so that no controller needs to list them or
// holds everybody's in memory.
func uncached() []client.Object {
	return []client.Object{&corev1.Secret{}}
}
