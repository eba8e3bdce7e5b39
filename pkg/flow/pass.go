package flow

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Object is an object whose status the flow writes.
type Object interface {
	client.Object
	// GetConditions are the conditions of the status.
	GetConditions() []metav1.Condition
	// GetStatus is a pointer to the status.
	GetStatus() any
}

// Pass is one pass over one object. It keeps the object as it was read.
type Pass struct {
	writer        client.Client
	events        events.EventRecorder
	announcements announcements
	object        Object
	before        Object
	// read are the conditions as they were read: what they have become since is announced.
	read []metav1.Condition
	// replaced are the versions that were written over.
	replaced []string
}

// begin starts a pass over an object that was just read.
func begin(writer client.Client, recorder events.EventRecorder, object Object, news announcements) *Pass {
	before := object.DeepCopyObject().(Object)
	return &Pass{
		writer: writer, events: recorder, announcements: news,
		object: object, before: before, read: before.GetConditions(),
	}
}

// Record writes the status ahead of the end of the pass: what was decided is recorded before what the same pass does next.
// If somebody else has changed the object, the pass ends and is repeated.
func (p *Pass) Record(ctx context.Context) Outcome {
	err := p.write(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return Outcome{Kind: KindWait, Rewritten: true}
	case apierrors.IsConflict(err):
		return Outcome{Kind: KindSave, Rewritten: true}
	}
	return Retry(err)
}

// write writes the status, if it changed.
func (p *Pass) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.before.GetStatus(), p.object.GetStatus()) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := p.writer.Status().Patch(ctx, p.object, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	p.replaced = append(p.replaced, p.before.GetResourceVersion())
	p.before = p.object.DeepCopyObject().(Object)
	return nil
}

// Before is the object as it was read, or as the pass has written it last.
func (p *Pass) Before() client.Object { return p.before }

// Replaced are the versions of the object that the pass has written over: a cache that shows one of them lags.
func (p *Pass) Replaced() []string { return p.replaced }

// commit writes the status once, if it changed, then emits an event for each condition that changed, then says when to
// come again. A status that somebody changed meanwhile is not overwritten: the pass is repeated on what is there now.
func (p *Pass) commit(ctx context.Context, outcome Outcome) (ctrl.Result, error) {
	if outcome.Rewritten {
		p.replaced = append(p.replaced, p.before.GetResourceVersion())
		return result(ctx, outcome)
	}
	switch err := p.write(ctx); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		log.FromContext(ctx).V(1).Info("Somebody else changed the object; looking again")
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	p.announce(ctx)
	return result(ctx, outcome)
}

func result(ctx context.Context, outcome Outcome) (ctrl.Result, error) {
	switch outcome.Kind {
	case KindSave:
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	case KindRetry:
		return ctrl.Result{}, outcome.Err
	case KindWait:
		log.FromContext(ctx).V(1).Info("Waiting", "reason", outcome.Reason, "message", outcome.Message)
	}
	return ctrl.Result{RequeueAfter: outcome.After}, nil
}
