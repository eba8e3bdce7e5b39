// Package instances keeps the instances of a cluster running, and stops them while their volumes belong to somebody else:
// the init Job, the Lease, the StatefulSet, what its pods are told, and their PodDisruptionBudget.
package instances

import (
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/pkg/workload"
)

// Steps that write what instances consist of. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	// Agent of Jobs that are created from now on.
	Agent workload.Agent
}
