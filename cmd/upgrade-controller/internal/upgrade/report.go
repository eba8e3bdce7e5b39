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
	if run := u.Status.Rehearsal; run != nil && run.Outcome == "" && outcome.Message != "" {
		run.Message = outcome.Message
	}
	if o.upgraded() && u.Status.UpAt != nil {
		reportUpgraded(o, outcome)
		return
	}
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
	flow.SetEnd(&u.Status.Conditions, u, v1alpha1.ConditionSucceeded, status, reason, message)
}

// reportUpgraded sets the conditions once the new version has served clients: whether the upgrade has succeeded, and whether it is
// confirmed.
func reportUpgraded(o *observed, outcome flow.Outcome) {
	u, status := o.upgrade, &o.upgrade.Status
	// One that is being deleted ends with that, unless it waits for a way back that there is none of.
	stopped := outcome.Stopped() && (u.DeletionTimestamp.IsZero() || outcome.Reason == v1alpha1.ReasonUndoImpossible)
	rolledBack := stopped && outcome.Reason == v1alpha1.ReasonRolledBack
	switch {
	case rolledBack, stopped && !o.endedBefore:
		flow.SetEnd(&status.Conditions, u, v1alpha1.ConditionSucceeded, metav1.ConditionFalse, outcome.Reason, outcome.Message)
	case !o.endedBefore && status.CompletedAt != nil:
		flow.SetEnd(&status.Conditions, u, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted, summary(u))
	case !o.endedBefore && outcome.Reason != "":
		flow.SetEnd(&status.Conditions, u, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, outcome.Reason, outcome.Message)
	}
	if stopped && status.SettledAt == nil {
		status.SettledAt = &metav1.Time{Time: o.now}
		if status.CompletedAt == nil {
			status.CompletedAt = status.SettledAt
		}
		flow.SetCondition(&status.Conditions, u, v1alpha1.ConditionConfirmed, metav1.ConditionFalse, outcome.Reason, outcome.Message)
		return
	}
	reportConfirmed(o, outcome)
}

// reportConfirmed says how the decision stands, until it was carried out.
func reportConfirmed(o *observed, outcome flow.Outcome) {
	u, status := o.upgrade, &o.upgrade.Status
	set := func(is metav1.ConditionStatus, reason, message string) {
		flow.SetCondition(&status.Conditions, u, v1alpha1.ConditionConfirmed, is, reason, message)
	}
	switch {
	case status.SettledAt != nil && status.Decided != nil && status.Decided.Decision == v1alpha1.UpgradeConfirm:
		set(metav1.ConditionTrue, v1alpha1.ReasonConfirmed, confirmed(u))
	case status.SettledAt != nil:
	case status.Decided == nil:
		set(metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation, awaitingConfirmation(o))
	case outcome.Reason != "" && status.CompletedAt != nil, status.Decided.Decision == v1alpha1.UpgradeRollBack && outcome.Reason != "":
		set(metav1.ConditionUnknown, outcome.Reason, outcome.Message)
	default:
		set(metav1.ConditionUnknown, v1alpha1.ReasonConfirming, "The previous data is deleted once the upgrade has ended.")
	}
}

func reportChecked(u *v1alpha1.Upgrade) {
	count, first := obstacles(u.Status.Findings)
	switch {
	case u.Status.CheckedAt == nil:
		return
	case count == 0:
		message := "Nothing prevents the upgrade."
		if warnings := len(u.Status.Findings); warnings > 0 {
			message = fmt.Sprintf("Nothing prevents the upgrade. status.findings has %d warnings.", warnings)
		}
		flow.SetCondition(&u.Status.Conditions, u, v1alpha1.ConditionChecked, metav1.ConditionTrue, v1alpha1.ReasonCheckPassed, message)
	default:
		flow.SetCondition(&u.Status.Conditions, u, v1alpha1.ConditionChecked, metav1.ConditionFalse, v1alpha1.ReasonCheckFailed, flow.Sentence(first))
	}
}

// summary says what was done, and how long the cluster was down.
func summary(u *v1alpha1.Upgrade) string {
	if run := u.Status.Rehearsal; run != nil {
		return run.Message
	}
	if u.Spec.CheckOnly {
		return fmt.Sprintf("The upgrade to PostgreSQL %d can be done.", u.Spec.Version)
	}
	if u.Status.DownAt == nil || u.Status.UpAt == nil || u.Status.Plan == nil {
		return ""
	}
	return fmt.Sprintf("The cluster was upgraded from PostgreSQL %d to %d. It accepted no connections for about %s.", u.Status.Plan.FromVersion, u.Spec.Version,
		u.Status.UpAt.Sub(u.Status.DownAt.Time).Round(time.Second))
}
