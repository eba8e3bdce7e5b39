package flow

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
)

// Pass is one look at one object. It keeps the object as it was read.
type Pass struct {
	writer client.Client
	events events.EventRecorder
	object client.Object
	before client.Object
	// told are the conditions as they were read: of what became of them people are told.
	told []metav1.Condition
	// replaced are the versions that were written over.
	replaced []string
}

// Begin starts a pass over an object that was just read.
func Begin(writer client.Client, recorder events.EventRecorder, object client.Object) *Pass {
	before := object.DeepCopyObject().(client.Object)
	return &Pass{writer: writer, events: recorder, object: object, before: before, told: ConditionsOf(before)}
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
	if equality.Semantic.DeepEqual(statusOf(p.before), statusOf(p.object)) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := p.writer.Status().Patch(ctx, p.object, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	p.replaced = append(p.replaced, p.before.GetResourceVersion())
	p.before = p.object.DeepCopyObject().(client.Object)
	return nil
}

// Before is the object as it was read, or as the pass has written it last.
func (p *Pass) Before() client.Object { return p.before }

// Replaced are the versions of the object that the pass has written over: a cache that shows one of them is behind.
func (p *Pass) Replaced() []string { return p.replaced }

// Commit writes the status once, if it changed, then emits an event for each condition that changed, then says when to
// come again. A status that somebody changed meanwhile is not overwritten: the pass is repeated on what is there now.
func (p *Pass) Commit(ctx context.Context, outcome Outcome) (ctrl.Result, error) {
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

// announce tells people of every condition that changed its status or reason, but for what tells is about.
func (p *Pass) announce(ctx context.Context) {
	before := p.told
	for _, now := range ConditionsOf(p.object) {
		old := meta.FindStatusCondition(before, now.Type)
		if old != nil && old.Status == now.Status && old.Reason == now.Reason {
			continue
		}
		log.FromContext(ctx).Info("Condition changed", "condition", now.Type, "status", now.Status,
			"reason", now.Reason, "message", now.Message)
		if goesWithoutSaying(old, &now) || !sums(now.Type) && !tells(old, &now, len(before) == 0) {
			continue
		}
		kind := corev1.EventTypeNormal
		if now.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		p.events.Eventf(p.object, nil, kind, now.Reason, now.Type, "%s", truncate(now.Message, 1000))
	}
}

// tells: of a condition beside the one that sums up, this is news. On a new object it is none, nor that it is good once it is
// known, nor how far a replica has come on its way.
func tells(old, now *metav1.Condition, isNew bool) bool {
	switch {
	case isNew:
		return false
	case old == nil:
		return true
	case old.Status == metav1.ConditionUnknown && now.Status == metav1.ConditionTrue:
		return false
	}
	return old.Status != now.Status || !slices.Contains(onTheWay, old.Reason) || !slices.Contains(onTheWay, now.Reason)
}

// onTheWay are reasons that follow each other while a replica comes to follow; the last of them says that it does.
var onTheWay = []string{
	v1alpha1.ReasonElecting, v1alpha1.ReasonReplicaDown, v1alpha1.ReasonCloning, v1alpha1.ReasonRewinding, v1alpha1.ReasonJoining,
}

// goesWithoutSaying: what was made ready is started, which people hear of when it runs, or when it can't.
func goesWithoutSaying(old, now *metav1.Condition) bool {
	return old != nil && old.Status == now.Status && old.Reason == v1alpha1.ReasonInitializing && now.Reason == v1alpha1.ReasonStarting
}

// sums: the condition says how the object is as a whole.
func sums(kind string) bool {
	return kind == v1alpha1.ConditionReady || kind == v1alpha1.ConditionSucceeded
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

// SetCondition sets a condition; the transition time changes only with the status. Messages are cut at 1,024 characters.
func SetCondition(conditions *[]metav1.Condition, object client.Object, kind string, status metav1.ConditionStatus, reason, message string) {
	if reason == "" {
		reason = ReasonError
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: truncate(message, 1024),
		ObservedGeneration: object.GetGeneration(),
	})
}

func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// statusOf is the status of one of our kinds.
func statusOf(object client.Object) any {
	switch o := object.(type) {
	case *v1alpha1.PostgresCluster:
		return o.Status
	case *v1alpha1.BackupRepository:
		return o.Status
	case *v1alpha1.Backup:
		return o.Status
	case *v1alpha1.BackupSchedule:
		return o.Status
	case *v1alpha1.Restore:
		return o.Status
	case *v1alpha1.Upgrade:
		return o.Status
	}
	panic(fmt.Sprintf("flow: %T is not a kind of howdah.dev", object))
}

// ConditionsOf are the conditions of one of our kinds.
func ConditionsOf(object client.Object) []metav1.Condition {
	switch s := statusOf(object).(type) {
	case v1alpha1.PostgresClusterStatus:
		return s.Conditions
	case v1alpha1.BackupRepositoryStatus:
		return s.Conditions
	case v1alpha1.BackupStatus:
		return s.Conditions
	case v1alpha1.BackupScheduleStatus:
		return s.Conditions
	case v1alpha1.RestoreStatus:
		return s.Conditions
	case v1alpha1.UpgradeStatus:
		return s.Conditions
	}
	return nil
}
