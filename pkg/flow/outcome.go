// Package flow makes a reconcile pass over one object: it observes, runs the steps of a plan, reports, and writes what came
// of it: one status patch, then events, then the Result. It is the one place that patches status, emits events of
// conditions and builds results, so they can't disagree. It knows no kinds; Loop takes what is particular to one.
package flow

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind of an Outcome.
type Kind int

const (
	// KindNext: nothing is left to do here; continue.
	KindNext Kind = iota
	// KindSave: a decision was recorded in the object; persist it, then come again at once.
	KindSave
	// KindWait: something else has to happen first.
	KindWait
	// KindRetry: an error that may pass.
	KindRetry
	// KindStop: nothing more will be done until a person changes something.
	KindStop
)

// Outcome says how a step, and with it a pass, ended. From it come the condition, the Result, the log line and the event.
type Outcome struct {
	Kind    Kind
	Reason  string
	Message string
	Err     error
	// Rewritten: the object itself is another one now, so nothing can be said of it before it is read again.
	Rewritten bool
	// After is when to look again although nothing woke us; zero leaves it to watches.
	After time.Duration
}

// Next continues with the next step.
var Next = Outcome{Kind: KindNext}

// Save persists what the step recorded in the object's status, and comes again at once.
func Save(reason, message string) Outcome {
	return Outcome{Kind: KindSave, Reason: reason, Message: message}
}

// Wait ends the pass until something changes. The reason and message are shown in the condition.
func Wait(reason, message string) Outcome {
	return Outcome{Kind: KindWait, Reason: reason, Message: message}
}

// Poll is Wait for what no watch tells of: it looks again after that time.
func Poll(after time.Duration, reason, message string) Outcome {
	return Outcome{Kind: KindWait, Reason: reason, Message: message, After: after}
}

// Retry ends the pass with an error that may pass; it is tried again with growing pauses.
func Retry(err error) Outcome {
	if err == nil {
		return Next
	}
	return Outcome{Kind: KindRetry, Reason: ReasonError, Message: err.Error(), Err: err}
}

// Stop ends the work for good, or until a person changes something.
func Stop(reason, message string) Outcome {
	return Outcome{Kind: KindStop, Reason: reason, Message: message}
}

// ReasonError is the reason of a condition while an unexpected error is being retried.
const ReasonError = "Error"

// Finished reports that all steps said Next.
func (o Outcome) Finished() bool { return o.Kind == KindNext }

// Stopped reports that a person has to change something.
func (o Outcome) Stopped() bool { return o.Kind == KindStop }

// Status is the condition status for work that ends (Succeeded): Unknown while it is in progress, False once it has stopped,
// True when all steps are done.
func (o Outcome) Status() metav1.ConditionStatus {
	switch o.Kind {
	case KindNext:
		return metav1.ConditionTrue
	case KindStop:
		return metav1.ConditionFalse
	}
	return metav1.ConditionUnknown
}

// Step does one thing on the grounds of what was observed before: at most one write.
type Step[T any] func(ctx context.Context, observed T) Outcome

// Run runs steps until one is not Next, and returns its outcome.
func Run[T any](ctx context.Context, observed T, steps ...Step[T]) Outcome {
	for _, step := range steps {
		if outcome := step(ctx, observed); outcome.Kind != KindNext {
			return outcome
		}
	}
	return Next
}
