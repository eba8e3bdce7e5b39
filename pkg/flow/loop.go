package flow

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

	// Attach gives what was observed the pass, for steps that record a decision before the same pass acts on it.
	Attach func(observed T, pass *Pass)
	// Delay is how long the status may wait to be written, for more to write with it; 0: not at all.
	Delay func(observed T, pass *Pass, outcome Outcome) time.Duration
	// Done is called at the end of every pass, however it ended.
	Done func(observed T, pass *Pass, outcome Outcome)
	// Deleted is called for an object that no longer exists.
	Deleted func(name types.NamespacedName)
}

// ErrStale is the error of an Observe or a step that found that what was observed is out of date. The pass ends without a
// report and is repeated soon.
var ErrStale = errors.New("what was observed is out of date")

// staleInterval is how long a cache that lags gets to catch up.
const staleInterval = 20 * time.Millisecond

// Reconcile makes one pass over the object of that name: it observes, runs the steps of the plan until one is not Next,
// reports, writes the status at most once, and announces what has changed.
func (l Loop[O, T]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := l.Object
	if err := l.Client.Get(ctx, request.NamespacedName, object); err != nil {
		if l.Deleted != nil && apierrors.IsNotFound(err) {
			l.Deleted(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if l.LogValues != nil {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues(l.LogValues(object)...))
	}
	pass := begin(l.Client, l.Events, object, announcements{summary: l.Summary, expected: l.Expected})
	observed, outcome := l.run(ctx, pass, object)
	if l.Done != nil {
		defer l.Done(observed, pass, outcome)
	}
	if errors.Is(outcome.Err, ErrStale) {
		log.FromContext(ctx).V(1).Info("Looking again", "error", outcome.Err.Error())
		return ctrl.Result{RequeueAfter: staleInterval}, nil
	}
	return l.conclude(ctx, pass, observed, outcome)
}

// run observes and runs the steps.
func (l Loop[O, T]) run(ctx context.Context, pass *Pass, object O) (T, Outcome) {
	observed, err := l.Observe(ctx, object)
	if err != nil {
		return observed, Retry(err)
	}
	if l.Attach != nil {
		l.Attach(observed, pass)
	}
	return observed, Run(ctx, observed, l.Plan(observed)...)
}

// conclude reports how the pass ended, and writes that.
func (l Loop[O, T]) conclude(ctx context.Context, pass *Pass, observed T, outcome Outcome) (ctrl.Result, error) {
	l.Report(observed, outcome)
	if l.Again != nil {
		outcome.After = l.Again(observed, outcome)
	}
	if l.Delay != nil {
		if wait := l.Delay(observed, pass, outcome); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	return pass.commit(ctx, outcome)
}
