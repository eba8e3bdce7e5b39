package upgrade

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// report sets the conditions from what was done in this pass; those of an Upgrade that had ended before stay. It is pure.
func report(o *observed, outcome flow.Outcome) {
	u := o.upgrade
	u.Status.ObservedGeneration = u.Generation
	reportChecked(u)
	if o.endedBefore {
		return
	}
	if u.DeletionTimestamp.IsZero() && (outcome.Finished() || outcome.Stopped()) {
		u.Status.CompletedAt = &metav1.Time{Time: o.now}
	}
	status, reason, message := outcome.Status(), outcome.Reason, outcome.Message
	if outcome.Finished() {
		reason, message = v1alpha1.ReasonCompleted, summary(u)
	}
	if reason == "" {
		return
	}
	flow.SetCondition(&u.Status.Conditions, u, v1alpha1.ConditionSucceeded, status, reason, message)
}

func reportChecked(u *v1alpha1.Upgrade) {
	count, first := obstacles(u.Status.Findings)
	switch {
	case u.Status.CheckedAt == nil:
		return
	case count == 0:
		message := "Nothing stands in the way of the upgrade."
		if warnings := len(u.Status.Findings); warnings > 0 {
			message = fmt.Sprintf("Nothing stands in the way of the upgrade. status.findings has %d warnings.", warnings)
		}
		flow.SetCondition(&u.Status.Conditions, u, v1alpha1.ConditionChecked, metav1.ConditionTrue, v1alpha1.ReasonCheckPassed, message)
	default:
		flow.SetCondition(&u.Status.Conditions, u, v1alpha1.ConditionChecked, metav1.ConditionFalse, v1alpha1.ReasonCheckFailed, flow.Sentence(first))
	}
}

// summary says what was done, and how long the cluster was down.
func summary(u *v1alpha1.Upgrade) string {
	if u.Spec.CheckOnly {
		return fmt.Sprintf("The upgrade to PostgreSQL %d can be done.", u.Spec.Version)
	}
	if u.Status.DownAt == nil || u.Status.UpAt == nil || u.Status.Plan == nil {
		return ""
	}
	return fmt.Sprintf("The cluster was upgraded from PostgreSQL %d to %d. It accepted no connections for about %s.", u.Status.Plan.FromVersion, u.Spec.Version,
		u.Status.UpAt.Sub(u.Status.DownAt.Time).Round(time.Second))
}
