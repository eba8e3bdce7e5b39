package flow

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
)

func TestRunStopsAtTheFirstStepThatIsNotNext(t *testing.T) {
	var ran []string
	step := func(name string, outcome Outcome) Step[int] {
		return func(context.Context, int) Outcome { ran = append(ran, name); return outcome }
	}
	got := Run(t.Context(), 0, step("a", Next), step("b", Wait("Because", "of that")), step("c", Next))
	if got.Reason != "Because" || len(ran) != 2 {
		t.Errorf("got %+v after %v", got, ran)
	}
	if !Run(t.Context(), 0, step("d", Next)).Finished() {
		t.Error("all steps done is not finished")
	}
}

func TestTheStatusOfAnOutcome(t *testing.T) {
	for want, outcome := range map[metav1.ConditionStatus][]Outcome{
		metav1.ConditionTrue:    {Next, Retry(nil)},
		metav1.ConditionFalse:   {Stop("R", "m")},
		metav1.ConditionUnknown: {Wait("R", "m"), Save("R", "m"), Retry(errors.New("x"))},
	} {
		for _, o := range outcome {
			if o.Status() != want {
				t.Errorf("%+v: got %s, want %s", o, o.Status(), want)
			}
		}
	}
}

var summary = announcements{summary: v1alpha1.ConditionSucceeded}

// committed runs one pass over a stored Backup: change works on the object as it was read.
func committed(t *testing.T, outcome Outcome, change func(client.Client, *v1alpha1.Backup)) (*v1alpha1.Backup, *events.FakeRecorder, ctrl.Result, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "b", Generation: 2}}
	writer := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
	read := &v1alpha1.Backup{}
	key := client.ObjectKeyFromObject(stored)
	if err := writer.Get(t.Context(), key, read); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	pass := begin(writer, recorder, read, summary)
	change(writer, read)
	result, err := pass.commit(t.Context(), outcome)
	after := &v1alpha1.Backup{}
	if err := writer.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	return after, recorder, result, err
}

func TestCommitWritesTheStatusOnceAndAnnouncesTransitions(t *testing.T) {
	after, recorder, result, err := committed(t, Poll(time.Minute, "Running", "copying"), func(_ client.Client, b *v1alpha1.Backup) {
		b.Status.StoredBytes = 7
		SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, "Running", "copying")
	})
	if err != nil || result.RequeueAfter != time.Minute || after.Status.StoredBytes != 7 || len(after.Status.Conditions) != 1 {
		t.Errorf("got %+v, %v, status %+v", result, err, after.Status)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("got %d events, want 1", len(recorder.Events))
	}
}

func TestTransitionsThatAPersonWouldNotTakeForGrantedBecomeEvents(t *testing.T) {
	conditions := func(ready, space metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{
			{Type: "Ready", Status: ready, Reason: "R" + string(ready)}, {Type: "Space", Status: space, Reason: "S" + string(space)},
		}
	}
	space := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Space", Status: metav1.ConditionFalse, Reason: reason}}
	}
	ready := announcements{summary: "Ready", expected: func(old, now metav1.Condition) bool {
		return old.Reason == "Filling" && now.Reason == "Full"
	}}
	for name, c := range map[string]struct {
		before, after []metav1.Condition
		events        int
	}{
		"a new object":                      {nil, conditions("False", "Unknown"), 1},
		"a side that turns out to be well":  {conditions("False", "Unknown"), conditions("False", "True"), 0},
		"a side that turns out to be wrong": {conditions("False", "Unknown"), conditions("False", "False"), 1},
		"a side that is well again":         {conditions("False", "False"), conditions("False", "True"), 1},
		"a side that is new":                {conditions("False", "False")[:1], conditions("False", "False"), 1},
		"the summary":                       {conditions("Unknown", "True"), conditions("True", "True"), 1},
		"nothing":                           {conditions("True", "True"), conditions("True", "True"), 0},
		"another reason":                    {space("Full"), space("Filling"), 1},
		"another reason, which is expected": {space("Filling"), space("Full"), 0},
	} {
		recorder := events.NewFakeRecorder(10)
		object := &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{Conditions: c.before}}
		pass := begin(nil, recorder, object, ready)
		object.Status.Conditions = c.after
		pass.announce(t.Context())
		if len(recorder.Events) != c.events {
			t.Errorf("%s: %d events", name, len(recorder.Events))
		}
	}
}

func TestCommitWritesNothingWhenNothingChanged(t *testing.T) {
	var before string
	after, recorder, _, err := committed(t, Next, func(_ client.Client, b *v1alpha1.Backup) { before = b.ResourceVersion })
	if err != nil || after.ResourceVersion != before || len(recorder.Events) != 0 {
		t.Errorf("resourceVersion %s became %s, %d events, %v", before, after.ResourceVersion, len(recorder.Events), err)
	}
}

func TestCommitNeverOverwritesWhatSomebodyElseWroteMeanwhile(t *testing.T) {
	after, recorder, result, err := committed(t, Next, func(writer client.Client, b *v1alpha1.Backup) {
		other := b.DeepCopy()
		other.Status.Version = "17.5"
		if writeErr := writer.Status().Update(t.Context(), other); writeErr != nil {
			t.Fatal(writeErr)
		}
		b.Status.StoredBytes = 7
		SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, "Completed", "")
	})
	if err != nil || result.RequeueAfter == 0 || after.Status.StoredBytes != 0 || after.Status.Version != "17.5" || len(recorder.Events) != 0 {
		t.Errorf("got %+v, %v, status %+v, %d events", result, err, after.Status, len(recorder.Events))
	}
}

func TestAnErrorComesBackForAnotherTryAfterTheStatusIsWritten(t *testing.T) {
	failure := errors.New("the API server is away")
	after, _, _, err := committed(t, Retry(failure), func(_ client.Client, b *v1alpha1.Backup) { b.Status.StoredBytes = 7 })
	if !errors.Is(err, failure) || after.Status.StoredBytes != 7 {
		t.Errorf("got %v, status %+v", err, after.Status)
	}
}

func TestFinalizersComeAndGoWithoutTouchingTheStatusUnderWay(t *testing.T) {
	after, _, _, err := committed(t, Next, func(writer client.Client, b *v1alpha1.Backup) {
		b.Status.StoredBytes = 7
		if o := EnsureFinalizer(t.Context(), writer, b, "howdah.dev/x"); o.Kind != KindSave {
			t.Errorf("adding: got %+v", o)
		}
		if b.Status.StoredBytes != 7 {
			t.Error("the status under way is gone")
		}
	})
	if err != nil || len(after.Finalizers) != 1 {
		t.Errorf("got %v, %v", after.Finalizers, err)
	}
}

func TestWhatIsRecordedIsThereBeforeThePassGoesOn(t *testing.T) {
	after, recorder, _, err := committed(t, Next, func(writer client.Client, b *v1alpha1.Backup) {
		pass := begin(writer, events.NewFakeRecorder(1), b, summary)
		version := b.ResourceVersion
		b.Status.Version = "17.5"
		if o := pass.Record(t.Context()); !o.Finished() {
			t.Fatalf("recording: got %+v", o)
		}
		stored := &v1alpha1.Backup{}
		if err := writer.Get(t.Context(), client.ObjectKeyFromObject(b), stored); err != nil || stored.Status.Version != "17.5" {
			t.Fatalf("stored: %+v, %v", stored.Status, err)
		}
		b.Status.StoredBytes = 7
		SetCondition(&b.Status.Conditions, b, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, "Completed", "")
		if _, err := pass.commit(t.Context(), Next); err != nil {
			t.Fatal(err)
		}
		if replaced := pass.Replaced(); len(replaced) != 2 || replaced[0] != version {
			t.Errorf("replaced %v, began with %s", replaced, version)
		}
		if o := begin(writer, events.NewFakeRecorder(1), stored, summary).Record(t.Context()); !o.Finished() {
			t.Errorf("recording what has not changed: got %+v", o)
		}
	})
	if err != nil || after.Status.Version != "17.5" || after.Status.StoredBytes != 7 || len(recorder.Events) != 0 {
		t.Errorf("got %v, status %+v, %d events", err, after.Status, len(recorder.Events))
	}
}

func TestADecisionOnAnObjectThatSomebodyElseChangedIsNotRecorded(t *testing.T) {
	after, _, _, err := committed(t, Outcome{Kind: KindSave, Rewritten: true}, func(writer client.Client, b *v1alpha1.Backup) {
		other := b.DeepCopy()
		other.Status.StoredBytes = 7
		if err := writer.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		pass := begin(writer, events.NewFakeRecorder(1), b, summary)
		b.Status.Version = "17.5"
		if o := pass.Record(t.Context()); o.Kind != KindSave || !o.Rewritten {
			t.Errorf("got %+v", o)
		}
	})
	if err != nil || after.Status.Version != "" || after.Status.StoredBytes != 7 {
		t.Errorf("got %v, status %+v", err, after.Status)
	}
}
