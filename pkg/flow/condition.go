package flow

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SetCondition sets a condition; the transition time changes only with the status. Messages are cut at 1,024 characters.
func SetCondition(conditions *[]metav1.Condition, object client.Object, kind string, status metav1.ConditionStatus, reason, message string) {
	if reason == "" {
		reason = ReasonError
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: truncate(message, 1024),
		ObservedGeneration: object.GetGeneration(),
	})
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
