package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	interval = 300 * time.Millisecond
	patience = 5 * time.Minute
)

// await waits for a condition to be true, and says on the way what the object itself says that it is at. A one-shot
// kind that has ended otherwise is an error at once.
func (s *story) await(ctx context.Context, object client.Object, condition string) error {
	last, name := "", kindOf(object)+" "+object.GetName()
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		if err := s.kube.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, err
		}
		conditions, observed, progress := statusOf(object)
		c := meta.FindStatusCondition(conditions, condition)
		if c == nil || observed < object.GetGeneration() {
			return false, nil
		}
		if now := describe(c, progress); now != last {
			s.say("%s: %s", name, now)
			last = now
		}
		if condition == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionFalse {
			return false, fmt.Errorf("it ended with %s: %s", c.Reason, c.Message)
		}
		return c.Status == metav1.ConditionTrue, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("still not %s after %s: %s", condition, patience, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func describe(c *metav1.Condition, progress *v1alpha1.Progress) string {
	text := strings.TrimSpace(c.Reason + ": " + c.Message)
	if progress != nil && c.Status == metav1.ConditionUnknown {
		text += fmt.Sprintf(" [%s %d%%]", progress.Phase, progress.Percent)
	}
	return text
}

func statusOf(object client.Object) ([]metav1.Condition, int64, *v1alpha1.Progress) {
	switch o := object.(type) {
	case *v1alpha1.PostgresCluster:
		return o.Status.Conditions, o.Status.ObservedGeneration, nil
	case *v1alpha1.BackupRepository:
		return o.Status.Conditions, o.Status.ObservedGeneration, nil
	case *v1alpha1.Backup:
		return o.Status.Conditions, o.Status.ObservedGeneration, o.Status.Progress
	case *v1alpha1.Restore:
		return o.Status.Conditions, o.Status.ObservedGeneration, o.Status.Progress
	case *v1alpha1.Upgrade:
		return o.Status.Conditions, o.Status.ObservedGeneration, o.Status.Progress
	}
	panic(fmt.Sprintf("no conditions in a %T", object))
}

func kindOf(object client.Object) string {
	return reflect.TypeOf(object).Elem().Name()
}

// awaitGone waits until an object is deleted.
func (s *story) awaitGone(ctx context.Context, object client.Object) error {
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		err := s.kube.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("%s %s is not gone: %w", kindOf(object), object.GetName(), err)
	}
	return nil
}

// awaitPod waits until a pod is ready.
func (s *story) awaitPod(ctx context.Context, name string) error {
	_, err := s.kubectlOutput(ctx, namespace, "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+name)
	return err
}
