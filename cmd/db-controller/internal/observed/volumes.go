package observed

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/pkg/workload"
)

// Volume with the name of an instance's, before the cluster has begun.
type Volume struct {
	Ordinal int
	Claim   *corev1.PersistentVolumeClaim
	// WAL is the claim of the WAL that belongs to it; nil: there is none.
	WAL *corev1.PersistentVolumeClaim
	// UsedBy is a pod that mounts it, or its WAL, and is not the one of Job; empty: there is none.
	UsedBy string
	// Inspection is the Job that looks at it, and Job what it was created as; nil: it isn't there.
	Inspection workload.State
	Job        *batchv1.Job
}
