package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// told answers each list with these events; without any it fails.
type told []corev1.Event

func (e told) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is to be read")
}

func (e told) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if len(e) == 0 {
		return errors.New("forbidden")
	}
	list.(*corev1.EventList).Items = e
	return nil
}

func TestAJobWhosePodIsRefusedSaysWhyAndIsLookedAtAgain(t *testing.T) {
	at := func(minute int, message string) corev1.Event {
		return corev1.Event{LastTimestamp: metav1.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC), Message: message}
	}
	state := stateOf(job(), nil)
	state.Explain(t.Context(), told{at(1, "denied by a webhook"), at(3, `pods "up-x" is forbidden: exceeded quota: all`), at(2, "no")}, "ns")
	if said := state.Trouble(); !strings.HasPrefix(said, "Kubernetes refuses to create the pod of the Job: pods ") || !strings.Contains(said, "exceeded quota: all") {
		t.Errorf("it says %q", said)
	}
	if outcome := state.Await("Running", state.Message); outcome.After == 0 {
		t.Errorf("nothing looks again: %+v", outcome)
	}
}

func TestOnlyAJobThatRunsWithoutAPodIsExplained(t *testing.T) {
	events := told{{Message: "exceeded quota"}}
	for name, state := range map[string]State{
		"there is none":       {},
		"it has a pod":        stateOf(job(), []corev1.Pod{{}}),
		"it has ended":        stateOf(job(batchv1.JobComplete), nil),
		"nothing can be read": stateOf(job(), nil),
	} {
		live := events
		if name == "nothing can be read" {
			live = nil
		}
		state.Explain(t.Context(), live, "ns")
		if state.Message != "" {
			t.Errorf("%s: %s", name, state.Message)
		}
	}
	if outcome := stateOf(job(), []corev1.Pod{{}}).Await("Running", "It runs."); outcome.After != 0 {
		t.Errorf("a Job with a pod is watched: %+v", outcome)
	}
}
