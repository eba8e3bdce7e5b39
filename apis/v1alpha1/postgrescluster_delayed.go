package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DelayedReplica is an instance that replays WAL late, so that what was deleted by mistake can be read there for a while.
type DelayedReplica struct {
	// Name of the instance, such as shop-2.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=42
	// +kubebuilder:validation:XValidation:rule="self.matches('-[0-8]$')",message="spec.delayedReplicas must name instances of this cluster, whose names end in a number from 0 to 8, such as shop-2"
	Name string `json:"name"`
	// Delay with which it replays each commit, such as 4h. A change applies at once, without a restart.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="spec.delayedReplicas[].delay must be from 1m to 168h, such as 4h: the WAL of that time lies on the volume of the replica"
	Delay metav1.Duration `json:"delay"`
}

// Delay with which an instance replays WAL as a replica; 0: none.
func (s *PostgresClusterSpec) Delay(name string) time.Duration {
	for i := range s.DelayedReplicas {
		if s.DelayedReplicas[i].Name == name {
			return s.DelayedReplicas[i].Delay.Duration
		}
	}
	return 0
}
