package flow

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// announcements say which transitions of conditions become events: those of the summary, and of the other conditions
// those that a person would not take for granted.
type announcements struct {
	// summary is the condition that says how the object is as a whole: Ready or Succeeded.
	summary string
	// expected reports that a transition follows from what was announced before and needs no event; nil: none does.
	expected func(old, now metav1.Condition) bool
}

// include reports that a transition becomes an event. Of a new object only the summary does, and that a condition turns
// out to be True, after it was Unknown, is no news. Old is nil for a condition that is new.
func (a announcements) include(old *metav1.Condition, now metav1.Condition, newObject bool) bool {
	switch {
	case old != nil && a.expected != nil && a.expected(*old, now):
		return false
	case now.Type == a.summary:
		return true
	case newObject:
		return false
	}
	return old == nil || old.Status != metav1.ConditionUnknown || now.Status != metav1.ConditionTrue
}

// announce logs every condition that changed its status or reason during the pass, and emits the events.
func (p *Pass) announce(ctx context.Context) {
	for _, now := range p.object.GetConditions() {
		if now.Type == conditionReconciling || now.Type == conditionStalled {
			continue // they repeat the summary
		}
		old := meta.FindStatusCondition(p.read, now.Type)
		if old != nil && old.Status == now.Status && old.Reason == now.Reason {
			continue
		}
		log.FromContext(ctx).Info("Condition changed", "condition", now.Type, "status", now.Status,
			"reason", now.Reason, "message", now.Message)
		if !p.announcements.include(old, now, len(p.read) == 0) {
			continue
		}
		kind := corev1.EventTypeNormal
		if now.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		p.events.Eventf(p.object, nil, kind, now.Reason, now.Type, "%s", truncate(now.Message, 1000))
	}
}
