package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Reinit is a request to clone one replica again.
type Reinit struct {
	// Instance that is cloned again, such as shop-1. It must be a replica, and PostgreSQL is stopped there until it has a new copy.
	// The previous one is kept for an hour after the new one streams.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=42
	// +kubebuilder:validation:XValidation:rule="self.matches('-[0-8]$')",message="spec.reinit.instance must name an instance of this cluster, whose name ends in a number from 0 to 8, such as shop-1"
	Instance string `json:"instance"`
	// Token distinguishes this request from the previous one: any text, such as the time of day. A request is carried out
	// or refused once. To withdraw one that waits because the agent of its instance can't be reached, remove spec.reinit, or replace it by
	// another request.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Token string `json:"token"`
	// AllowFewerReplicas lets the instance be cloned again although too few replicas stream without it: none, so that nobody
	// can take over from the primary until it is done, or fewer than spec.synchronous.number, so that commits wait until then.
	// +optional
	AllowFewerReplicas bool `json:"allowFewerReplicas,omitempty"`
}

// ReinitStatus is the outcome of spec.reinit.
type ReinitStatus struct {
	// Token of the request.
	Token string `json:"token"`
	// Instance that is cloned again.
	Instance string `json:"instance"`
	// State of the request.
	State ReinitState `json:"state"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
	// CompletedAt is when it was done or refused, or has failed.
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
}

// AutomaticReinitStatus is the last clone of a replica with damaged data that nobody requested. It is recorded before the agent is told.
type AutomaticReinitStatus struct {
	ReinitStatus `json:",inline"`
	// StartedAt is when it was decided. No other clone is decided within 24 hours, and none of the same instance within seven days of one that was done or failed; one that was refused counts for the 24 hours only.
	StartedAt metav1.Time `json:"startedAt"`
	// Evidence of the damage.
	Evidence string `json:"evidence"`
	// Earlier clones of the seven days before it that were done or failed: the last one of each instance.
	// +listType=map
	// +listMapKey=instance
	// +kubebuilder:validation:MaxItems=9
	// +optional
	Earlier []EarlierReinit `json:"earlier,omitempty"`
}

// EarlierReinit is a clone of a replica with damaged data that was decided before the last one.
type EarlierReinit struct {
	// Instance that was cloned again.
	Instance string `json:"instance"`
	// StartedAt is when it was decided.
	StartedAt metav1.Time `json:"startedAt"`
	// State in which it ended.
	State ReinitState `json:"state"`
	// Message for a person.
	// +optional
	Message string `json:"message,omitempty"`
}

// Cloning is the instance that is being cloned again; empty: there is none.
func (s *PostgresClusterStatus) Cloning() string {
	switch {
	case s.Reinit != nil && s.Reinit.State == ReinitRunning:
		return s.Reinit.Instance
	case s.AutomaticReinit != nil && s.AutomaticReinit.State == ReinitRunning:
		return s.AutomaticReinit.Instance
	}
	return ""
}

// ReinitState is the state of a requested clone.
// +kubebuilder:validation:Enum=Running;Done;Refused;Failed
type ReinitState string

const (
	// ReinitRunning means that it is under way.
	ReinitRunning ReinitState = "Running"
	// ReinitDone means that the new copy streams from the primary.
	ReinitDone ReinitState = "Done"
	// ReinitRefused means that nothing was done; the message says why.
	ReinitRefused ReinitState = "Refused"
	// ReinitFailed means that no copy could be made; the message says why. The instance continues with the one that it had.
	ReinitFailed ReinitState = "Failed"
)
