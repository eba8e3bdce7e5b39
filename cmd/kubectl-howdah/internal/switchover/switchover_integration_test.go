//go:build integration

package switchover

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

// ask asks for a switchover of a new cluster, while answer stands in for the db-controller.
func ask(t *testing.T, request Request, answer func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	c, cluster := made(t)
	key, answered := client.ObjectKeyFromObject(cluster), make(chan error, 1)
	go func() {
		answered <- wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			if err := c.Get(ctx, key, cluster); err != nil || cluster.Spec.Switchover == nil {
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

func TestAPersonIsToldWhoIsThePrimaryNow(t *testing.T) {
	out, err := ask(t, Request{To: "shop-2", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{
			Token: cluster.Spec.Switchover.Token, From: "shop-0", To: cluster.Spec.Switchover.To, State: v1alpha1.SwitchoverDone,
		}
	})
	if err != nil || !strings.HasPrefix(out, "shop-2 is now the primary instead of shop-0.") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldThatNothingHadToChange(t *testing.T) {
	out, err := ask(t, Request{To: "shop-0", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{Token: "one", From: "shop-0", To: "shop-0", State: v1alpha1.SwitchoverDone}
	})
	if err != nil || out != "shop-0 is the primary already.\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldWhyItWasRefused(t *testing.T) {
	_, err := ask(t, Request{To: "shop-9", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{Token: "one", State: v1alpha1.SwitchoverRefused, Message: "there is no shop-9"}
	})
	if err == nil || err.Error() != "refused: there is no shop-9" {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerToAnOlderRequestIsNoneAndTheWaitSaysWhatIsKnown(t *testing.T) {
	for known, want := range map[v1alpha1.SwitchoverStatus]string{
		{Token: "one", State: v1alpha1.SwitchoverDone}:                                  "timed out after 1s; spec.switchover stays as requested",
		{Token: "two", State: v1alpha1.SwitchoverRunning, Message: "shop-1 catches up"}: "timed out after 1s; spec.switchover stays as requested: shop-1 catches up",
	} {
		c, cluster := made(t)
		cluster.Status.Switchover = &known
		if err := c.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		err := Request{Token: "two", Wait: true, Timeout: time.Second}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestARequestOfSomebodyElseEndsTheWait(t *testing.T) {
	_, err := ask(t, Request{Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Spec.Switchover.Token = "another"
	})
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutWaitingTheRequestIsWritten(t *testing.T) {
	out, err := ask(t, Request{Token: "one"}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "status.switchover") {
		t.Errorf("%q, %v", out, err)
	}
}
