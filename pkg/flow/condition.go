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

// The conditions that tools which wait for any kind go by, as kstatus defines them: they are there only while they are True.
const (
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// SetEnd sets the condition of a kind that ends, and with it the one that says to tools that know no kinds that it continues (Reconciling), or that it
// has failed (Stalled). Without them, they would take a kind without Ready for done as soon as it was created.
func SetEnd(conditions *[]metav1.Condition, object client.Object, kind string, status metav1.ConditionStatus, reason, message string) {
	SetCondition(conditions, object, kind, status, reason, message)
	for standard, when := range map[string]metav1.ConditionStatus{conditionReconciling: metav1.ConditionUnknown, conditionStalled: metav1.ConditionFalse} {
		if status == when {
			SetCondition(conditions, object, standard, metav1.ConditionTrue, reason, message)
		} else {
			meta.RemoveStatusCondition(conditions, standard)
		}
	}
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
