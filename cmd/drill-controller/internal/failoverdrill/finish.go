package failoverdrill

import (
	"context"
	"fmt"
	"strings"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// failure is why the drill ends without a result, or nil. It is pure.
func (o *observed) failure() *v1alpha1.Failure {
	status := &o.drill.Status
	switch {
	case status.Failure != nil:
		return status.Failure
	case status.Result != nil:
		return nil
	case o.drill.Spec.Cancel:
		return fail(v1alpha1.ReasonCancelled, "The FailoverDrill was cancelled with spec.cancel.")
	case status.Request == nil:
		return nil
	case o.cluster == nil || o.cluster.UID != status.Request.ClusterUID || !o.cluster.DeletionTimestamp.IsZero():
		return fail(v1alpha1.ReasonClusterReplaced, "PostgresCluster %s was deleted.", o.drill.Spec.Cluster.Name)
	}
	for _, look := range []func() *v1alpha1.Failure{o.refusal, o.writerFailure, o.overdue} {
		if failure := look(); failure != nil {
			return failure
		}
	}
	return nil
}

func fail(reason, format string, values ...any) *v1alpha1.Failure {
	return &v1alpha1.Failure{Reason: reason, Message: fmt.Sprintf(format, values...)}
}

func (o *observed) refusal() *v1alpha1.Failure {
	if response := o.response(); response != nil && response.State == v1alpha1.FailoverDrillRefused && o.drill.Status.InjectedAt == nil {
		return fail(v1alpha1.ReasonInjectionRefused, "The db-controller did not cause the fault. %s", response.Message)
	}
	return nil
}

// writerFailure is why nothing is measured any more. A second pod would not know what the first one was told.
func (o *observed) writerFailure() *v1alpha1.Failure {
	switch {
	case o.writer.Taken():
		return fail(v1alpha1.ReasonNameConflict, "%s", flow.Sentence(o.writer.Message))
	case o.writer.Failed || o.writer.Outcome != nil && o.writer.Outcome.Error != nil:
		_, message := o.writer.FailureReason()
		return fail(v1alpha1.ReasonWriterFailed, "The Job that writes rows has failed: %s", flow.Sentence(message))
	case o.decided() && !o.writer.Exists:
		return fail(v1alpha1.ReasonWriterFailed, "The Job that writes rows was deleted.")
	}
	return nil
}

// overdue is what takes too long.
func (o *observed) overdue() *v1alpha1.Failure {
	status := &o.drill.Status
	timeout := durationOr(o.drill.Spec.Timeout, defaultTimeout)
	switch {
	case !o.decided() && o.now.Sub(status.StartedAt.Time) > prepareLimit && o.response() == nil:
		return fail(v1alpha1.ReasonWriterFailed, "The db-controller did not prepare the cluster within %s.", prepareLimit)
	case !o.decided() && o.now.Sub(status.StartedAt.Time) > prepareLimit:
		return fail(v1alpha1.ReasonWriterFailed, "No rows were written within %s. %s", prepareLimit, o.writer.Trouble())
	case o.decided() && status.WholeAt == nil && o.now.Sub(status.Request.Inject.DecidedAt.Time) > timeout:
		return fail(v1alpha1.ReasonNotWhole, "The cluster had not fully recovered within spec.timeout (%s). %s", timeout, notWhole(o.cluster))
	case status.WholeAt != nil && o.now.Sub(status.WholeAt.Time) > countLimit:
		return fail(v1alpha1.ReasonWriterFailed, "The Job that writes rows did not count them within %s.", countLimit)
	}
	return nil
}

// pinFailure records the failure, so that what is cleaned up doesn't change it.
func pinFailure(_ context.Context, o *observed) flow.Outcome {
	if o.drill.Status.Failure != nil {
		return flow.Next
	}
	o.drill.Status.Failure = o.failure()
	o.drill.Status.Failure.Message = strings.TrimSpace(o.drill.Status.Failure.Message)
	return flow.Save(o.drill.Status.Failure.Reason, o.drill.Status.Failure.Message)
}

// withdraw tells the db-controller that the drill is over: it removes the certificate, and has the role and its schema removed.
func withdraw(_ context.Context, o *observed) flow.Outcome {
	if o.drill.Status.Request == nil {
		return flow.Next
	}
	o.drill.Status.Request = nil
	return flow.Save(v1alpha1.ReasonMeasuring, "The drill has ended. What it created is being deleted.")
}

func (r *Reconciler) removeWriter(ctx context.Context, o *observed) flow.Outcome {
	if !o.writer.Exists {
		return flow.Next
	}
	if err := workload.Remove(ctx, r.Client, r.Live, o.drill, protocol.FailoverDrillName(o.drill.Name), o.writer); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonMeasuring, "The Job that wrote rows is being removed.")
}

// awaitReleased waits until the db-controller has taken note: only then may another drill begin.
func awaitReleased(_ context.Context, o *observed) flow.Outcome {
	if o.cluster == nil || o.cluster.Status.FailoverDrill == nil || o.cluster.Status.FailoverDrill.UID != o.drill.UID {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonMeasuring, "Waiting until the db-controller has removed what the drill needed.")
}

func concludeFailure(_ context.Context, o *observed) flow.Outcome {
	return flow.Stop(o.drill.Status.Failure.Reason, o.drill.Status.Failure.Message)
}

// compare ends the drill by its limits.
func compare(_ context.Context, o *observed) flow.Outcome {
	if beyond := exceeded(o.drill.Spec.Limits, o.drill.Status.Result); len(beyond) > 0 {
		return flow.Stop(v1alpha1.ReasonLimitExceeded, strings.Join(beyond, " "))
	}
	return flow.Next
}

// exceeded says which limits the result lies beyond, a sentence each.
func exceeded(limits *v1alpha1.FailoverDrillLimits, result *v1alpha1.FailoverDrillResult) (beyond []string) {
	if limits == nil {
		return nil
	}
	if limits.MaxGap != nil && result.LongestGap.Duration > limits.MaxGap.Duration {
		beyond = append(beyond, fmt.Sprintf("No row was acknowledged for %s, longer than spec.limits.maxGap (%s).", result.LongestGap.Duration, limits.MaxGap.Duration))
	}
	if limits.MaxLostRows != nil && result.RowsLost > *limits.MaxLostRows {
		beyond = append(beyond, fmt.Sprintf("%d acknowledged rows are missing, more than spec.limits.maxLostRows (%d).", result.RowsLost, *limits.MaxLostRows))
	}
	if limits.MaxTimeToWhole != nil && result.TimeToWhole.Duration > limits.MaxTimeToWhole.Duration {
		beyond = append(beyond, fmt.Sprintf("The cluster had fully recovered after %s, longer than spec.limits.maxTimeToWhole (%s).", result.TimeToWhole.Duration, limits.MaxTimeToWhole.Duration))
	}
	return beyond
}

// expire deletes a drill whose time after its end is over.
func (r *Reconciler) expire(ctx context.Context, o *observed) flow.Outcome {
	return flow.Expire(ctx, r.Client, o.drill, *o.drill.Status.CompletedAt, o.drill.Spec.TTLSecondsAfterFinished, o.now)
}
