//go:build integration

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/hibernatecmd"
)

func awake(spec *v1alpha1.PostgresClusterSpec) { spec.Hibernate = false }

func asleep(spec *v1alpha1.PostgresClusterSpec) { spec.Hibernate = true }

// askHibernation is ask with this command, of a cluster that is not as requested.
func askHibernation(t *testing.T, request hibernatecmd.Request, respond func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	present := asleep
	if request.Hibernate {
		present = awake
	}
	return ask(t, request, present, func(spec v1alpha1.PostgresClusterSpec) bool { return spec.Hibernate == request.Hibernate }, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.ObservedGeneration = cluster.Generation
		respond(cluster)
	})
}

// reports is the db-controller with a condition.
func reports(kind string, status metav1.ConditionStatus, reason, message string) func(*v1alpha1.PostgresCluster) {
	return func(cluster *v1alpha1.PostgresCluster) {
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func TestAPersonIsToldWhenTheClusterSleepsAndWhenItServes(t *testing.T) {
	stopped := reports(v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "")
	out, err := askHibernation(t, hibernatecmd.Request{Hibernate: true, Wait: true, Timeout: time.Minute}, stopped)
	if err != nil || !strings.HasPrefix(out, "All instances are stopped") {
		t.Errorf("%q, %v", out, err)
	}
	running := reports(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning, "")
	out, err = askHibernation(t, hibernatecmd.Request{Wait: true, Timeout: time.Minute}, running)
	if err != nil || !strings.HasPrefix(out, "The cluster accepts connections again.") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAWaitThatIsTooShortSaysWhatIsKnownAndTheRequestStays(t *testing.T) {
	request := hibernatecmd.Request{Hibernate: true, Wait: true, Timeout: 2 * time.Second}
	c, cluster := newCluster(t, awake)
	cluster.Status.ObservedGeneration = cluster.Generation + 1 // that of the request
	reports(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "PostgreSQL is being stopped.")(cluster)
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	err := request.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "timed out after 2s; spec.hibernate stays as requested: PostgreSQL is being stopped.") {
		t.Errorf("got %v", err)
	}
}

func TestAClusterThatServesIsStoppedOnlyIfAPersonConfirms(t *testing.T) {
	for name, c := range map[string]struct {
		ready metav1.ConditionStatus
		typed string
		yes   bool
		want  bool
	}{
		"it serves, and nobody confirms":    {metav1.ConditionTrue, "no\n", false, false},
		"it serves, and a person confirms":  {metav1.ConditionTrue, "shop\n", false, true},
		"it serves, and nobody is asked":    {metav1.ConditionTrue, "", true, true},
		"it doesn't serve, so nothing ends": {metav1.ConditionFalse, "", false, true},
	} {
		cl, cluster := newCluster(t, awake)
		reports(v1alpha1.ConditionReady, c.ready, "Any", "")(cluster)
		must(t, cl.Status().Update(t.Context(), cluster))
		err := hibernatecmd.Request{Hibernate: true, Yes: c.yes, In: strings.NewReader(c.typed)}.Ask(t.Context(), cl, client.ObjectKeyFromObject(cluster), io.Discard)
		must(t, cl.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
		if cluster.Spec.Hibernate != c.want || (err == nil) != c.want {
			t.Errorf("%s: %v, %v", name, cluster.Spec.Hibernate, err)
		}
	}
}

func TestWithoutWaitingTheChangeIsWritten(t *testing.T) {
	out, err := askHibernation(t, hibernatecmd.Request{Hibernate: true}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "condition Ready") {
		t.Errorf("%q, %v", out, err)
	}
}
