package instances

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
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
		o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Clone: &v1alpha1.BootstrapClone{Cluster: v1alpha1.LocalReference{Name: "orders"}}}
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
	o.CloneSource.UID = "v"
	o.InitJob = workload.State{}
	o.Live = nil
	if outcome := (&Steps{}).Initialize(t.Context(), o); outcome.Reason != v1alpha1.ReasonSourceLost {
		t.Errorf("%+v", outcome)
	}
}
