package condition

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finding is a condition before it is written.
type Finding struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// True is a finding that the condition holds.
func True(reason, message string) Finding { return Finding{metav1.ConditionTrue, reason, message} }

// False is a finding that the condition doesn't hold.
func False(reason, message string) Finding { return Finding{metav1.ConditionFalse, reason, message} }

// Unknown is a finding that it isn't known whether the condition holds.
func Unknown(reason, message string) Finding {
	return Finding{metav1.ConditionUnknown, reason, message}
}
