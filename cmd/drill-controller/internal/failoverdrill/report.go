package failoverdrill

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report sets the condition from what was done in this pass; that of a drill that had ended before stays. It is pure.
func report(o *observed, outcome flow.Outcome) {
	d := o.drill
	d.Status.ObservedGeneration = d.Generation
	if o.endedBefore || !d.DeletionTimestamp.IsZero() {
		return
	}
	if outcome.Finished() || outcome.Stopped() {
		d.Status.CompletedAt = &metav1.Time{Time: o.now}
	}
	reason, message := outcome.Reason, outcome.Message
	if outcome.Finished() {
		reason, message = v1alpha1.ReasonCompleted, summary(d.Status.Result)
	}
	if reason == "" {
		return
	}
	flow.SetEnd(&d.Status.Conditions, d, v1alpha1.ConditionSucceeded, outcome.Status(), reason, message)
}

// summary says what clients have noticed.
func summary(result *v1alpha1.FailoverDrillResult) string {
	lost := "None of them is missing."
	if result.RowsLost > 0 {
		lost = fmt.Sprintf("%d of them are missing.", result.RowsLost)
	}
	return fmt.Sprintf("The longest time without an acknowledged row was %s on new connections and %s on a kept one. %d rows were acknowledged. %s The cluster had fully recovered after %s.",
		result.LongestGap.Duration, result.LongestGapKept.Duration, result.RowsAcknowledged, lost, result.TimeToWhole.Duration)
}
