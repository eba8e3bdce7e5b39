package instances

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// clone of a cluster that runs, which is changed.
func clone(change func(source *v1alpha1.PostgresCluster)) *observed.Cluster {
	source := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: "u"}}
	source.Spec.Version, source.Status.MajorVersion = 17, 17
	source.Status.SystemIdentifier, source.Status.ReadyInstances = "7", 1
	if change != nil {
		change(source)
	}
	return observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Status = v1alpha1.PostgresClusterStatus{}
		o.Cluster.Spec.Version, o.Cluster.Spec.Image = 17, ""
		o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Clone: &v1alpha1.BootstrapClone{Cluster: v1alpha1.LocalReference{Name: "orders"}, Database: "orders", Owner: "clerk"}}
		o.CloneSource = source
	})
}

func TestACloneWaitsUntilItsSourceCanBeRead(t *testing.T) {
	at := metav1.NewTime(time.Unix(1, 0))
	for says, change := range map[string]func(*v1alpha1.PostgresCluster){
		"":                     nil,
		"being deleted":        func(c *v1alpha1.PostgresCluster) { c.DeletionTimestamp = &at },
		"in a Restore":         func(c *v1alpha1.PostgresCluster) { c.Status.VolumeLocks = []v1alpha1.VolumeLock{{Name: "r"}} },
		"has no instance that": func(c *v1alpha1.PostgresCluster) { c.Status.ReadyInstances = 0 },
	} {
		outcome := AwaitCloneSource(t.Context(), clone(change))
		if says == "" && outcome != flow.Next || says != "" && (outcome.Reason != v1alpha1.ReasonAwaitingSource || !strings.Contains(outcome.Message, says)) {
			t.Errorf("%q: %+v", says, outcome)
		}
	}
	none := clone(nil)
	none.CloneSource = nil
	if outcome := AwaitCloneSource(t.Context(), none); outcome.Reason != v1alpha1.ReasonAwaitingSource {
		t.Errorf("without a source: %+v", outcome)
	}
}

func TestACloneThatCouldNotRunOnTheDataIsRefused(t *testing.T) {
	for says, change := range map[string]func(*v1alpha1.PostgresCluster){
		"":                       nil,
		"Set spec.version to 15": func(c *v1alpha1.PostgresCluster) { c.Status.MajorVersion = 15 },
		"Set spec.image":         func(c *v1alpha1.PostgresCluster) { c.Spec.Image = "own:17" },
		"extension image pgvector. ": func(c *v1alpha1.PostgresCluster) {
			c.Spec.PostgreSQL.ExtensionImages = []v1alpha1.ExtensionImage{{Name: "pgvector"}}
		},
	} {
		if got := SourceMismatch(clone(change)); (says == "") != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%q: %q", says, got)
		}
	}
}

func TestAnotherClusterUnderTheNameOfTheSourceIsNotCloned(t *testing.T) {
	o := clone(nil)
	PinClone(o)
	if lost := sourceLost(o); lost != "" || o.Cluster.Status.Clone.SystemIdentifier != "7" {
		t.Errorf("%q, %+v", lost, o.Cluster.Status.Clone)
	}
	if task := cloneTask(o); task.Database != "orders" || task.Owner != "clerk" {
		t.Errorf("the Job is told %+v", task)
	}
	o.CloneSource.UID = "v"
	o.Live = nil
	pods := func(phases ...corev1.PodPhase) (all []corev1.Pod) {
		for _, phase := range phases {
			all = append(all, corev1.Pod{Status: corev1.PodStatus{Phase: phase}})
		}
		return all
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: o.Cluster.Namespace, Name: o.Names.InitJob(), UID: "j"}}
	for name, c := range map[string]struct {
		state         workload.State
		workers       []corev1.Pod
		lost, deleted bool
	}{
		"no Job":              {workload.State{}, nil, true, false},
		"a pod that waits":    {workload.State{Exists: true, UID: "j", LivePods: 1}, pods(corev1.PodPending), true, true},
		"between two pods":    {workload.State{Exists: true, UID: "j"}, nil, true, true},
		"a Job that is going": {workload.State{Exists: true, UID: "j", Deleting: true}, nil, true, false},
		"a Job that failed":   {workload.State{Exists: true, UID: "j", Failed: true}, nil, true, false},
		"a pod that copies":   {workload.State{Exists: true, UID: "j", LivePods: 1}, pods(corev1.PodRunning), false, false},
		"a pod not seen yet":  {workload.State{Exists: true, UID: "j", LivePods: 1}, nil, false, false},
	} {
		s := &Steps{Applier: &apply.Applier{Client: fake.NewClientBuilder().WithObjects(job.DeepCopy()).Build()}}
		o.InitJob, o.Workers = c.state, c.workers
		outcome := s.Initialize(t.Context(), o)
		gone := apierrors.IsNotFound(s.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &batchv1.Job{}))
		if (outcome.Reason == v1alpha1.ReasonSourceLost) != c.lost || gone != c.deleted {
			t.Errorf("%s: %+v, deleted: %v", name, outcome, gone)
		}
	}
}
