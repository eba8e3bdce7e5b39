package condition

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finding is a condition before it is written.
type Finding struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func True(reason, message string) Finding { return Finding{metav1.ConditionTrue, reason, message} }

func False(reason, message string) Finding { return Finding{metav1.ConditionFalse, reason, message} }

func Unknown(reason, message string) Finding {
	return Finding{metav1.ConditionUnknown, reason, message}
}
