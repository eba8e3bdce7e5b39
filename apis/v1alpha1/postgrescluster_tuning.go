package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TuningPolicy says what is done about findings that a parameter of PostgreSQL would end.
// +kubebuilder:validation:XValidation:rule="self in ['Manual','Automatic']",message="spec.tuning must be Manual, which leaves parameters to you, or Automatic, which sets those that can do no harm"
type TuningPolicy string

// The policies.
const (
	// TuningManual leaves them to a person.
	TuningManual TuningPolicy = "Manual"
	// TuningAutomatic sets parameters that can do no harm, within bounds.
	TuningAutomatic TuningPolicy = "Automatic"
)

// AutomaticTuning are parameters that spec.tuning: Automatic has changed.
type AutomaticTuning struct {
	// Parameters that the instances have instead of computed ones. Those of spec.postgresql.parameters override them.
	// +optional
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// Reason has the numbers on which they are based.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Since is when they were decided.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Waiting says why nothing is changed now, although there is a finding.
	// +optional
	Waiting string `json:"waiting,omitempty"`
}

// TunedParameters are those that were changed automatically; none where nobody wants that any more.
func (c *PostgresCluster) TunedParameters() map[string]ParameterValue {
	if c.Spec.Tuning != TuningAutomatic || c.Status.AutomaticTuning == nil {
		return nil
	}
	return c.Status.AutomaticTuning.Parameters
}
