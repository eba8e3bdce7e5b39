package flow

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Loop is one kind's reconcile pass: what is particular to the kind, around the sequence that all kinds share. O is the
// kind, T what a pass has observed of one object.
type Loop[O Object, T any] struct {
	// Client reads the object and writes its status.
	Client client.Client
	// Events is where transitions of conditions are announced.
	Events events.EventRecorder
	// Object is an empty object of the kind; the pass reads into it.
	Object O

	// Observe does every read of the pass. It returns what it has observed along with its error, too.
	Observe func(ctx context.Context, object O) (T, error)
	// Plan is the list of steps for what was observed.
	Plan func(observed T) []Step[T]
	// Report writes into the status what was observed and how the pass ended. It is pure.
	Report func(observed T, outcome Outcome)
	// Again is when to look again although nothing wakes the controller; nil leaves that to the outcome.
	Again func(observed T, outcome Outcome) time.Duration

	// Summary is the condition that says how the object is as a whole: Ready or Succeeded. Each of its transitions is
	// announced.
	Summary string
	// Expected reports that a transition follows from what was announced before and needs no event; nil: none does.
	Expected func(old, now metav1.Condition) bool
	// LogValues are keys and values for what is logged during the pass; nil: none.
	LogValues func(object O) []any
}

// Reconcile makes one pass over the object of that name: it observes, runs the steps of the plan until one is not Next,
// reports, writes the status at most once, and announces what has changed.
func (l Loop[O, T]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := l.Object
	if err := l.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if l.LogValues != nil {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues(l.LogValues(object)...))
	}
	pass := Begin(l.Client, l.Events, object, Announcements{Summary: l.Summary, Expected: l.Expected})
	observed, err := l.Observe(ctx, object)
	outcome := Retry(err)
	if err == nil {
		outcome = Run(ctx, observed, l.Plan(observed)...)
	}
	l.Report(observed, outcome)
	if l.Again != nil {
		outcome.After = l.Again(observed, outcome)
	}
	return pass.Commit(ctx, outcome)
}
