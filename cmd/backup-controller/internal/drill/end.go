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
func (o *observed) ending() *verdict {
	run := o.underWay()
	failed := func(reason, format string, args ...any) *verdict {
		return &verdict{v1alpha1.DrillFailed, reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case o.leaving():
		return &verdict{v1alpha1.DrillCancelled, v1alpha1.ReasonCancelled, "The drill was cancelled: spec.drill no longer requests it."}
	case o.copy.Foreign:
		return failed(v1alpha1.ReasonNameConflict, "A Restore named %s already exists and belongs to somebody else. It is not touched.", run.Name)
	case o.copy.Restore == nil && run.RestoreUID != "" || o.copy.Restore != nil && !o.copy.Restore.DeletionTimestamp.IsZero():
		return failed(v1alpha1.ReasonRestoreFailed, "Restore %s was deleted before the drill was done.", run.Name)
	case !o.now.Before(o.deadline()):
		return failed(v1alpha1.ReasonDrillTimedOut, "The drill took longer than spec.drill.timeoutSeconds (%s), and was stopped. Its last message was: %s",
			o.deadline().Sub(run.StartedAt.Time), run.Message)
	case o.job.Taken():
		return failed(v1alpha1.ReasonNameConflict, "%s", o.job.Message)
	case run.RestoreSeconds > 0 && o.copy.Cluster == nil:
		return failed(v1alpha1.ReasonRestoreFailed, "PostgresCluster %s was deleted before the drill was done.", run.Name)
	case o.job.Failed && o.job.Ended():
		reason, message := o.job.FailureReason()
		return failed(reason, "The restored cluster could not be checked: %s", message)
	}
	if failure := o.copy.Failure(); failure != "" {
		return failed(v1alpha1.ReasonRestoreFailed, "%s", failure)
	}
	return nil
}

func (r *Reconciler) conclude(_ context.Context, o *observed) flow.Outcome {
	v := o.ending()
	o.end(v.outcome, v.reason, v.message)
	return flow.Save(v.reason, v.message)
}

// end records how the drill that is under way has ended. What it has made is put away from then on.
func (o *observed) end(outcome v1alpha1.DrillOutcome, reason, message string) {
	status := o.repo.Status.Drill
	run := status.UnderWay
	run.Outcome, run.Reason, run.Message, run.CompletedAt = outcome, reason, message, &metav1.Time{Time: o.now}
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
func report(o *observed, outcome flow.Outcome) {
	status := o.repo.Status.Drill
	if status != nil && status.UnderWay != nil && outcome.Message != "" {
		status.UnderWay.Message = outcome.Message
	}
	if o.repo.Spec.Drill == nil {
		meta.RemoveStatusCondition(&o.repo.Status.Conditions, v1alpha1.ConditionDrilled)
		if status != nil && status.UnderWay == nil {
			o.repo.Status.Drill = nil
		}
		return
	}
	set := func(to metav1.ConditionStatus, reason, message string) {
		flow.SetCondition(&o.repo.Status.Conditions, o.repo, v1alpha1.ConditionDrilled, to, reason, message)
	}
	switch last := status.Last; {
	case last != nil && last.Outcome == v1alpha1.DrillFailed:
		set(metav1.ConditionFalse, last.Reason, last.Message+o.besides())
	case o.invalid != nil:
		set(metav1.ConditionUnknown, v1alpha1.ReasonInvalidSchedule, o.invalid.Error()+".")
	case last != nil:
		set(metav1.ConditionTrue, v1alpha1.ReasonDrilled, last.Message+o.besides())
	default:
		set(metav1.ConditionUnknown, v1alpha1.ReasonNotDrilledYet, "No drill has ended yet."+o.besides())
	}
}

// besides is what a person should know who reads of the last drill.
func (o *observed) besides() string {
	status := o.repo.Status.Drill
	switch {
	case o.invalid != nil:
		return " " + o.invalid.Error() + "."
	case o.repo.Spec.Drill.Suspend:
		return " The schedule is suspended by spec.drill.suspend."
	case status.Last == nil && status.UnderWay != nil:
		return " One is under way: see status.drill.underWay."
	case status.Last == nil && status.NextScheduleTime != nil:
		return " One begins at " + status.NextScheduleTime.UTC().Format(time.RFC3339) + "."
	}
	return ""
}
