package drill

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// verdict is why a drill ends without a result.
type verdict struct {
	outcome         v1alpha1.DrillOutcome
	reason, message string
}

// ending is why the drill that is under way ends here, or nil.
func (w *world) ending() *verdict {
	run := w.underWay()
	failed := func(reason, format string, args ...any) *verdict {
		return &verdict{v1alpha1.DrillFailed, reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case w.leaving():
		return &verdict{v1alpha1.DrillCancelled, v1alpha1.ReasonCancelled, "No drill is wanted any more."}
	case w.foreign:
		return failed(v1alpha1.ReasonNameConflict, "A Restore %s is there that belongs to somebody else; it is left alone.", run.Name)
	case w.restore == nil && run.RestoreUID != "" || w.restore != nil && !w.restore.DeletionTimestamp.IsZero():
		return failed(v1alpha1.ReasonRestoreFailed, "Restore %s was deleted before the drill was done.", run.Name)
	case !w.now.Before(w.deadline()):
		return failed(v1alpha1.ReasonDrillTimedOut, "The drill has taken longer than spec.drill.timeoutSeconds (%s), and was ended. The last thing it said: %s",
			w.deadline().Sub(run.StartedAt.Time), run.Message)
	case w.job.Foreign:
		return failed(v1alpha1.ReasonNameConflict, "%s.", w.job.Message)
	case run.RestoreSeconds > 0 && w.cluster == nil:
		return failed(v1alpha1.ReasonRestoreFailed, "PostgresCluster %s was deleted before the drill was done.", run.Name)
	case w.job.Failed && w.job.Ended():
		reason, message := w.job.FailureReason()
		return failed(reason, "The restored cluster could not be looked at: %s", message)
	}
	return w.restoreFailed()
}

func (w *world) restoreFailed() *verdict {
	if w.restore == nil {
		return nil
	}
	condition := meta.FindStatusCondition(w.restore.Status.Conditions, v1alpha1.ConditionSucceeded)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil
	}
	return &verdict{v1alpha1.DrillFailed, v1alpha1.ReasonRestoreFailed,
		fmt.Sprintf("Restore %s has failed (%s): %s", w.restore.Name, condition.Reason, condition.Message)}
}

func (r *Reconciler) conclude(_ context.Context, w *world) flow.Outcome {
	v := w.ending()
	w.end(v.outcome, v.reason, v.message)
	return flow.Save(v.reason, v.message)
}

// end records how the drill that is under way has ended. What it has made is put away from then on.
func (w *world) end(outcome v1alpha1.DrillOutcome, reason, message string) {
	status := w.repo.Status.Drill
	run := status.UnderWay
	run.Outcome, run.Reason, run.Message, run.CompletedAt = outcome, reason, message, &metav1.Time{Time: w.now}
	if outcome == v1alpha1.DrillCancelled {
		return
	}
	status.Last = run.DeepCopy()
	if outcome == v1alpha1.DrillSucceeded {
		status.LastSuccessTime = run.CompletedAt
	}
}

// report says in the status what the drill that is under way waits for, and in the Drilled condition what the last one has
// found: one that is under way hides nothing.
func report(w *world, outcome flow.Outcome) {
	status := w.repo.Status.Drill
	if status != nil && status.UnderWay != nil && outcome.Message != "" {
		status.UnderWay.Message = outcome.Message
	}
	if w.repo.Spec.Drill == nil {
		meta.RemoveStatusCondition(&w.repo.Status.Conditions, v1alpha1.ConditionDrilled)
		if status != nil && status.UnderWay == nil {
			w.repo.Status.Drill = nil
		}
		return
	}
	set := func(to metav1.ConditionStatus, reason, message string) {
		flow.SetCondition(&w.repo.Status.Conditions, w.repo, v1alpha1.ConditionDrilled, to, reason, message)
	}
	switch last := status.Last; {
	case last != nil && last.Outcome == v1alpha1.DrillFailed:
		set(metav1.ConditionFalse, last.Reason, last.Message+w.besides())
	case w.invalid != nil:
		set(metav1.ConditionUnknown, v1alpha1.ReasonInvalidSchedule, w.invalid.Error()+".")
	case last != nil:
		set(metav1.ConditionTrue, v1alpha1.ReasonDrilled, last.Message+w.besides())
	default:
		set(metav1.ConditionUnknown, v1alpha1.ReasonNotDrilledYet, "No drill has ended yet."+w.besides())
	}
}

// besides is what a person should know who reads of the last drill.
func (w *world) besides() string {
	status := w.repo.Status.Drill
	switch {
	case w.invalid != nil:
		return " " + w.invalid.Error() + "."
	case w.repo.Spec.Drill.Suspend:
		return " The schedule is suspended by spec.drill.suspend."
	case status.Last == nil && status.UnderWay != nil:
		return " One is under way: see status.drill.underWay."
	case status.Last == nil && status.NextScheduleTime != nil:
		return " One begins at " + status.NextScheduleTime.UTC().Format(time.RFC3339) + "."
	}
	return ""
}
