package flow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
)

// looped runs one pass of a Loop over a stored Backup; change sets what is particular to the test.
func looped(t *testing.T, change func(*Loop[*v1alpha1.Backup, *v1alpha1.Backup])) (*v1alpha1.Backup, *events.FakeRecorder, ctrl.Result, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "b"}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	recorder := events.NewFakeRecorder(10)
	loop := Loop[*v1alpha1.Backup, *v1alpha1.Backup]{
		Client: api, Events: recorder, Object: &v1alpha1.Backup{}, Summary: v1alpha1.ConditionSucceeded,
		Observe: func(_ context.Context, b *v1alpha1.Backup) (*v1alpha1.Backup, error) { return b, nil },
		Plan:    func(*v1alpha1.Backup) []Step[*v1alpha1.Backup] { return nil },
		Report: func(b *v1alpha1.Backup, outcome Outcome) {
			SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, outcome.Status(), "Reported", outcome.Message)
		},
	}
	change(&loop)
	key := client.ObjectKeyFromObject(stored)
	result, err := loop.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	after := &v1alpha1.Backup{}
	if err := api.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	return after, recorder, result, err
}

func TestAnErrorOfObserveIsReportedAndRetriedWithoutAnyStep(t *testing.T) {
	away := errors.New("the API server is away")
	after, recorder, _, err := looped(t, func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
		l.Observe = func(_ context.Context, b *v1alpha1.Backup) (*v1alpha1.Backup, error) { return b, away }
		l.Plan = func(*v1alpha1.Backup) []Step[*v1alpha1.Backup] { t.Error("planned"); return nil }
	})
	if !errors.Is(err, away) || len(after.Status.Conditions) != 1 || after.Status.Conditions[0].Message != away.Error() || len(recorder.Events) != 1 {
		t.Errorf("got %v, %+v, %d events", err, after.Status.Conditions, len(recorder.Events))
	}
}

func TestWhatIsStaleIsNotReportedAndLookedAtAgain(t *testing.T) {
	stale := fmt.Errorf("the cache lags: %w", ErrStale)
	for name, change := range map[string]func(*Loop[*v1alpha1.Backup, *v1alpha1.Backup]){
		"found by observe": func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
			l.Observe = func(_ context.Context, b *v1alpha1.Backup) (*v1alpha1.Backup, error) { return b, stale }
		},
		"found by a step": func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
			l.Plan = func(*v1alpha1.Backup) []Step[*v1alpha1.Backup] {
				return []Step[*v1alpha1.Backup]{func(context.Context, *v1alpha1.Backup) Outcome { return Retry(stale) }}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			done := false
			after, recorder, result, err := looped(t, func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
				change(l)
				l.Done = func(*v1alpha1.Backup, *Pass, Outcome) { done = true }
			})
			if err != nil || result.RequeueAfter != staleInterval || len(after.Status.Conditions) != 0 || len(recorder.Events) != 0 || !done {
				t.Errorf("got %+v, %v, %+v, done %t", result, err, after.Status.Conditions, done)
			}
		})
	}
}

func TestAStatusThatMayWaitIsNotWrittenYet(t *testing.T) {
	after, _, result, err := looped(t, func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
		l.Delay = func(_ *v1alpha1.Backup, pass *Pass, _ Outcome) time.Duration {
			if len(pass.Before().(*v1alpha1.Backup).Status.Conditions) != 0 {
				t.Error("Before is not what was read")
			}
			return time.Second
		}
	})
	if err != nil || result.RequeueAfter != time.Second || len(after.Status.Conditions) != 0 {
		t.Errorf("got %+v, %v, %+v", result, err, after.Status.Conditions)
	}
}

func TestAStepCanRecordADecisionBeforeThePassGoesOn(t *testing.T) {
	var pass *Pass
	after, recorder, result, err := looped(t, func(l *Loop[*v1alpha1.Backup, *v1alpha1.Backup]) {
		l.Attach = func(_ *v1alpha1.Backup, p *Pass) { pass = p }
		l.Plan = func(*v1alpha1.Backup) []Step[*v1alpha1.Backup] {
			return []Step[*v1alpha1.Backup]{func(ctx context.Context, b *v1alpha1.Backup) Outcome {
				b.Status.Version = "17.5"
				return pass.Record(ctx)
			}}
		}
		l.Again = func(*v1alpha1.Backup, Outcome) time.Duration { return time.Hour }
	})
	if err != nil || result.RequeueAfter != time.Hour || after.Status.Version != "17.5" || len(recorder.Events) != 1 || len(pass.Replaced()) != 2 {
		t.Errorf("got %+v, %v, %+v, %d events, replaced %v", result, err, after.Status, len(recorder.Events), pass.Replaced())
	}
}

func TestAnObjectThatNoLongerExistsIsForgotten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var deleted types.NamespacedName
	loop := Loop[*v1alpha1.Backup, int]{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Object: &v1alpha1.Backup{},
		Deleted: func(name types.NamespacedName) { deleted = name },
	}
	key := types.NamespacedName{Namespace: "demo", Name: "b"}
	if result, err := loop.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != (ctrl.Result{}) || deleted != key {
		t.Errorf("got %+v, %v, deleted %s", result, err, deleted)
	}
}
