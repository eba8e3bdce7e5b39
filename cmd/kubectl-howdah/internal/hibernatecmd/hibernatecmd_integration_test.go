//go:build integration

package hibernatecmd

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// made is a cluster that is not as requested.
func made(t *testing.T, request Request) (client.Client, *v1alpha1.PostgresCluster) {
	t.Helper()
	c := apiserver.Client(t)
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, c), Name: "shop"},
		Spec: v1alpha1.PostgresClusterSpec{
			Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}, Hibernate: !request.Hibernate,
		},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return c, cluster
}

// ask asks such a cluster, while say stands in for the db-controller once the request is there.
func ask(t *testing.T, request Request, say func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	c, cluster := made(t, request)
	key, answered := client.ObjectKeyFromObject(cluster), make(chan error, 1)
	go func() {
		answered <- wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			seen := &v1alpha1.PostgresCluster{}
			if err := c.Get(ctx, key, seen); err != nil || seen.Spec.Hibernate != request.Hibernate {
				return false, err
			}
			before := seen.DeepCopy()
			seen.Status.ObservedGeneration = seen.Generation
			say(seen)
			return true, c.Status().Patch(ctx, seen, client.MergeFrom(before))
		})
	}()
	var out strings.Builder
	err := request.Ask(t.Context(), c, key, &out)
	if failed := <-answered; failed != nil {
		t.Fatal(failed)
	}
	return out.String(), err
}

func says(kind string, status metav1.ConditionStatus, reason, message string) func(*v1alpha1.PostgresCluster) {
	return func(cluster *v1alpha1.PostgresCluster) {
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func TestAPersonIsToldWhenTheClusterSleepsAndWhenItServes(t *testing.T) {
	asleep := says(v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonHibernated, "")
	out, err := ask(t, Request{Hibernate: true, Wait: true, Timeout: time.Minute}, asleep)
	if err != nil || !strings.HasPrefix(out, "All instances are stopped") {
		t.Errorf("%q, %v", out, err)
	}
	awake := says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning, "")
	out, err = ask(t, Request{Wait: true, Timeout: time.Minute}, awake)
	if err != nil || !strings.HasPrefix(out, "The cluster accepts connections again.") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAWaitThatIsTooShortSaysWhatIsKnownAndTheRequestStays(t *testing.T) {
	request := Request{Hibernate: true, Wait: true, Timeout: 2 * time.Second}
	c, cluster := made(t, request)
	cluster.Status.ObservedGeneration = cluster.Generation + 1 // that of the request
	says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "PostgreSQL is being stopped.")(cluster)
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	err := request.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "timed out after 2s; spec.hibernate stays as requested: PostgreSQL is being stopped.") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutWaitingTheChangeIsWritten(t *testing.T) {
	out, err := ask(t, Request{Hibernate: true}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "condition Ready") {
		t.Errorf("%q, %v", out, err)
	}
}
