package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		return corev1.Event{Reason: "FailedCreate", LastTimestamp: metav1.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC), Message: message}
	}
	state := stateOf(job(), nil)
	state.Explain(t.Context(), told{at(1, "denied by a webhook"), at(3, `Error creating: pods "up-x" is forbidden: exceeded quota: all`), at(2, "no")}, "ns")
	if said := state.Trouble(); !strings.HasPrefix(said, "Kubernetes refuses to create the pod of the Job: pods ") || !strings.Contains(said, "exceeded quota: all") {
		t.Errorf("it says %q", said)
	}
	if outcome := state.Await("Running", state.Message); outcome.After == 0 || outcome.Reason != "PodRefused" {
		t.Errorf("nothing looks again, or says so: %+v", outcome)
	}
}

func TestAJobWhosePodIsRefusedSaysWhatToDo(t *testing.T) {
	const context, service = "unable to validate against any security context constraint", `error looking up service account demo/a-backup: serviceaccount "a-backup" not found`
	fixed := func(j *batchv1.Job) { j.Spec.Template.Spec.SecurityContext = PodSecurity() }
	free := func(j *batchv1.Job) {
		fixed(j)
		j.Spec.Template.Spec.SecurityContext.RunAsUser = nil
	}
	for name, c := range map[string]struct {
		why       string
		job       func(*batchv1.Job)
		resources Resources
		want      string
	}{
		"a quota":                        {"exceeded quota: all", fixed, OfCluster, "lower what counts against it, such as spec.resources of the PostgresCluster."},
		"a quota that wants limits":      {"failed quota: all: must specify limits.cpu for: worker", fixed, OfCluster, "Set spec.resources.limits (cpu and memory) of the PostgresCluster, "},
		"whose resources are its own":    {"failed quota: all: must specify limits.cpu for: worker", fixed, Resources{Field: "spec.resources"}, "Set spec.resources.limits (cpu and memory), "},
		"OpenShift":                      {context, fixed, OfCluster, "On OpenShift, the PostgresCluster needs spec.runAs: {fromNamespace: true}"},
		"OpenShift chooses the user":     {context, free, OfCluster, "Give the ServiceAccount of the pod security context constraints"},
		"its ServiceAccount was deleted": {service, fixed, OfCluster, "Delete the Job: it is created again"},
	} {
		made := job()
		c.job(made)
		state := stateOf(made, nil)
		state.ExplainBy(t.Context(), told{{Reason: "FailedCreate", Message: "Error creating: " + c.why}}, "ns", c.resources)
		if said := state.Trouble(); !strings.Contains(said, c.why) || !strings.Contains(said, c.want) || state.Reason("Running") != "PodRefused" {
			t.Errorf("%s: %s: %s", name, state.Reason("Running"), said)
		}
	}
	if reason := stateOf(job(), nil).Reason("Running"); reason != "Running" {
		t.Errorf("a Job that has no pod yet is %s", reason)
	}
}

func TestAJobThatIsRefusedItselfSaysWhatToDo(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, c := range map[string]struct {
		err  error
		want string // empty: it is tried again as any other error
	}{
		"a quota":              {apierrors.NewForbidden(jobs, "a", errors.New("exceeded quota: all, requested: count/jobs.batch=1")), "Raise the quota"},
		"a webhook":            {apierrors.NewForbidden(jobs, "a", errors.New(`admission webhook "w" denied the request: no owner`)), "have the policy of the namespace changed"},
		"a webhook is gone":    {apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)), "Have the webhook repaired"},
		"the role lacks it":    {apierrors.NewForbidden(jobs, "a", errors.New("User \"c\" cannot create resource")), ""},
		"the server is away":   {errors.New("connection refused"), ""},
		"it is busy":           {apierrors.NewTooManyRequests("later", 1), ""},
		"a name is somebody's": {taken{"Role", "a"}, "belongs to somebody else"},
	} {
		outcome := NotEnsured(fmt.Errorf("create a: %w", c.err))
		if again := outcome.Err != nil; again != (c.want == "") || !strings.Contains(outcome.Message, c.want) {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

func TestOnlyAJobThatRunsWithoutAPodIsExplained(t *testing.T) {
	events := told{{Reason: "FailedCreate", Message: "exceeded quota"}}
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

func TestARefusalIsOfThePodAndOfNowAndLeavesRoomForWhatToDo(t *testing.T) {
	at := func(minute int, reason, pod, why string) corev1.Event {
		message := "create Pod " + pod + " in StatefulSet shop successful"
		if why != "" {
			message = "create Pod " + pod + " in StatefulSet shop failed error: " + why
		}
		return corev1.Event{Reason: reason, LastTimestamp: metav1.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC), Message: message}
	}
	refused := func(minute int, pod, why string) corev1.Event { return at(minute, "FailedCreate", pod, why) }
	created := func(minute int, pod string) corev1.Event { return at(minute, "SuccessfulCreate", pod, "") }
	newer := corev1.Event{Reason: "FailedCreate", EventTime: metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 9, 0, 0, time.UTC)), Message: "create Pod shop-1 in StatefulSet shop failed error: newer"}
	for name, c := range map[string]struct {
		events told
		want   string
	}{
		"its last":                     {told{refused(2, "shop-1", "b"), refused(1, "shop-1", "a"), refused(3, "shop-10", "c")}, "b"},
		"it was created since":         {told{refused(1, "shop-1", "a"), created(2, "shop-1"), refused(3, "shop-0", "b")}, ""},
		"it was refused again":         {told{created(1, "shop-1"), refused(2, "shop-1", "a")}, "a"},
		"another came first":           {told{refused(1, "shop-0", "a")}, "a"},
		"another was created":          {told{refused(1, "shop-0", "a"), created(2, "shop-0")}, ""},
		"it says something else":       {told{at(1, "RecreatingFailedPod", "shop-1", "x")}, ""},
		"an event of the newer kind":   {told{refused(1, "shop-1", "a"), newer}, "newer"},
		"nothing can be read":          {nil, ""},
		"one that fills the condition": {told{refused(1, "shop-1", strings.Repeat("é", 900))}, strings.Repeat("é", 499) + "…"},
	} {
		if got := ReadRefusals(t.Context(), c.events, "ns", "uid").Of("shop-1"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	const users = "Let the namespace decide."
	for why, want := range map[string]string{
		`pods "shop-0" is forbidden: failed quota: all: must specify limits.cpu for: postgres; limits.memory for: postgres`:                  "Set spec.resources.limits (cpu and memory)",
		`pods "shop-0" is forbidden: exceeded quota: all, requested: limits.memory=2Gi, used: limits.memory=1Gi, limited: limits.memory=2Gi`: "Raise the quota",
		`pods "shop-0" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden]`:             users,
		`pods "shop-0" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`:                                            "LimitRange",
		`admission webhook "validation.gatekeeper.sh" denied the request: [owner] you must provide labels: {"owner"}`:                        "the policy of the namespace",
		`pods "shop-0" is forbidden: no PriorityClass with name high was found`:                                                              "Create the PriorityClass",
		`pods "shop-0" is forbidden: pod rejected: RuntimeClass "gvisor" not found`:                                                          "spec.pods.runtimeClassName",
		`pods "shop-0" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes (volume "x")`:                                "spec.pods of the PostgresCluster",
		`Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: connection refused`:                        "Have the webhook repaired",
	} {
		if got := Remedy(why, users); !strings.Contains(got, want) {
			t.Errorf("%s: %s", why, got)
		}
	}
}
