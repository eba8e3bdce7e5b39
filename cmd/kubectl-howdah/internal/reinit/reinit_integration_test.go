//go:build integration

package reinit

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// made is a new cluster.
func made(t *testing.T) (client.Client, *v1alpha1.PostgresCluster) {
	t.Helper()
	c := apiserver.Client(t)
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, c), Name: "shop"},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return c, cluster
}

// ask asks for a clone in a new cluster, while answer stands in for the db-controller.
func ask(t *testing.T, request Request, answer func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	c, cluster := made(t)
	key, answered := client.ObjectKeyFromObject(cluster), make(chan error, 1)
	go func() {
		answered <- wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			if err := c.Get(ctx, key, cluster); err != nil || cluster.Spec.Reinit == nil {
				return false, err
			}
			before := cluster.DeepCopy()
			answer(cluster)
			if err := c.Patch(ctx, cluster.DeepCopy(), client.MergeFrom(before)); err != nil {
				return false, err
			}
			return true, c.Status().Patch(ctx, cluster, client.MergeFrom(before))
		})
	}()
	var out strings.Builder
	err := request.Ask(t.Context(), c, key, &out)
	if failed := <-answered; failed != nil {
		t.Fatal(failed)
	}
	return out.String(), err
}

func TestAPersonIsToldThatTheReplicaStreamsAgain(t *testing.T) {
	request := Request{Instance: "shop-2", Token: "one", AllowFewerReplicas: true, Wait: true, Timeout: time.Minute}
	out, err := ask(t, request, func(cluster *v1alpha1.PostgresCluster) {
		asked := cluster.Spec.Reinit
		if *asked != (v1alpha1.Reinit{Instance: "shop-2", Token: "one", AllowFewerReplicas: true}) {
			t.Errorf("asked for %+v", asked)
		}
		cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: "one", Instance: "shop-2", State: v1alpha1.ReinitDone, Message: "The new copy is g1.c2."}
	})
	if err != nil || !strings.HasPrefix(out, "shop-2 was cloned again and streams.") || !strings.HasSuffix(out, "The new copy is g1.c2.\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldWhyThereIsNoNewCopy(t *testing.T) {
	for state, want := range map[v1alpha1.ReinitState]string{v1alpha1.ReinitRefused: "refused: no", v1alpha1.ReinitFailed: "failed: no"} {
		_, err := ask(t, Request{Instance: "shop-5", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
			cluster.Status.Reinit = &v1alpha1.ReinitStatus{Token: "one", Instance: "shop-5", State: state, Message: "no"}
		})
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheWaitForACloneSaysWhatIsKnown(t *testing.T) {
	for known, want := range map[v1alpha1.ReinitStatus]string{
		{Token: "one", Instance: "shop-1", State: v1alpha1.ReinitDone}:                          "timed out after 1s; the clone continues if it has begun",
		{Token: "one", Instance: "shop-1", State: v1alpha1.ReinitRunning}:                       "it waits for another request, which clones shop-1",
		{Token: "two", Instance: "shop-2", State: v1alpha1.ReinitRunning, Message: "Half way."}: "begun: Half way.",
	} {
		c, cluster := made(t)
		cluster.Status.Reinit = &known
		if err := c.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		err := Request{Instance: "shop-2", Token: "two", Wait: true, Timeout: time.Second}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestARequestOfSomebodyElseEndsTheWaitForAClone(t *testing.T) {
	_, err := ask(t, Request{Instance: "shop-1", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Spec.Reinit.Token = "another"
	})
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutWaitingTheRequestForACloneIsWritten(t *testing.T) {
	out, err := ask(t, Request{Instance: "shop-1", Token: "one"}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "status.reinit") {
		t.Errorf("%q, %v", out, err)
	}
}
