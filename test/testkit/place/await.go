package place

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	interval = 250 * time.Millisecond
	patience = 15 * time.Minute // generous: the machine may be busy
)

// Await polls the object until done says so; what says what is awaited.
func (p *Place) Await(object client.Object, what string, done func() bool) {
	p.Helper()
	p.AwaitFor(patience, object, what, done)
}

// AwaitFor is Await for so long at most.
func (p *Place) AwaitFor(limit time.Duration, object client.Object, what string, done func() bool) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), interval, limit, true, func(ctx context.Context) (bool, error) {
		if err := p.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return done(), nil
	})
	if err != nil {
		p.Fatalf("%T %s: %s: %v; it says %s", object, object.GetName(), what, err, Describe(object))
	}
}

// AwaitTrue waits for a condition; one of an ended object that is false ends the test at once.
func (p *Place) AwaitTrue(object client.Object, kind string) {
	p.Helper()
	p.Await(object, kind, func() bool {
		c := Condition(object, kind)
		if c != nil && kind == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionFalse {
			p.Fatalf("%T %s ended with %s: %s", object, object.GetName(), c.Reason, c.Message)
		}
		return c != nil && c.Status == metav1.ConditionTrue
	})
}

// AwaitReason waits until a condition has this reason and this part of a message.
func (p *Place) AwaitReason(object client.Object, kind, reason, message string) {
	p.Helper()
	p.Await(object, kind+" to say "+reason, func() bool {
		c := Condition(object, kind)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, message)
	})
	p.Logf("%s: %s: %s", object.GetName(), reason, Condition(object, kind).Message)
}

// AwaitSaid waits until any condition says something. It sees each state since the object was read last, however short:
// why a pod goes may be said for less than a second.
func (p *Place) AwaitSaid(object client.Object, text string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	for !strings.Contains(Describe(object), text) {
		if ctx.Err() != nil {
			p.Fatalf("%T %s: to say %s: %v; it says %s", object, object.GetName(), text, ctx.Err(), Describe(object))
		}
		p.follow(ctx, object, func() bool { return strings.Contains(Describe(object), text) })
	}
	p.Logf("%s", Describe(object))
}

// follow an object from where it was read last, until done says so or the watch ends.
func (p *Place) follow(ctx context.Context, object client.Object, done func() bool) {
	p.Helper()
	gvk, err := p.GroupVersionKindFor(object)
	p.Must(err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	watched, err := p.watcher.Watch(ctx, list, client.InNamespace(p.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{
		FieldSelector: "metadata.name=" + object.GetName(), ResourceVersion: object.GetResourceVersion(),
	}})
	if ctx.Err() != nil {
		return
	}
	p.Must(err)
	defer watched.Stop()
	for event := range watched.ResultChan() {
		seen, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			p.Fatalf("the watch of %s ended with %v", object.GetName(), event.Object)
		}
		p.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(seen.Object, object))
		if done() {
			return
		}
	}
}

// AwaitGone waits until there is no such object.
func (p *Place) AwaitGone(object client.Object) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		err := p.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		p.Fatalf("%T %s is still there: %v; it says %s", object, object.GetName(), err, Describe(object))
	}
}

// Condition of the object as it was read last, if it speaks of the present spec.
func Condition(object client.Object, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(conditionsOf(object), kind)
	if c == nil || c.ObservedGeneration != object.GetGeneration() {
		return nil
	}
	return c
}

// Describe says what the object says of itself.
func Describe(object client.Object) string {
	var all []string
	for _, c := range conditionsOf(object) {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "; ")
}

// conditionsOf an object of one of our kinds; of others: none.
func conditionsOf(object client.Object) []metav1.Condition {
	if ours, ok := object.(interface{ GetConditions() []metav1.Condition }); ok {
		return ours.GetConditions()
	}
	return nil
}
