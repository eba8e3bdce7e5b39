//go:build integration

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/reinit"
)

// askReinit is ask with this command.
func askReinit(t *testing.T, request reinit.Request, respond func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	return ask(t, request, nil, func(spec v1alpha1.PostgresClusterSpec) bool { return spec.Reinit != nil }, respond)
}

func TestAPersonIsToldThatTheReplicaStreamsAgain(t *testing.T) {
	request := reinit.Request{Instance: "shop-2", Token: "one", AllowFewerReplicas: true, Wait: true, Timeout: time.Minute}
	out, err := askReinit(t, request, func(cluster *v1alpha1.PostgresCluster) {
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
		_, err := askReinit(t, reinit.Request{Instance: "shop-5", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
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
		c, cluster := newCluster(t, nil)
		cluster.Status.Reinit = &known
		if err := c.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		err := reinit.Request{Instance: "shop-2", Token: "two", Wait: true, Timeout: time.Second}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestARequestOfSomebodyElseEndsTheWaitForAClone(t *testing.T) {
	_, err := askReinit(t, reinit.Request{Instance: "shop-1", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Spec.Reinit.Token = "another"
	})
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutWaitingTheRequestForACloneIsWritten(t *testing.T) {
	out, err := askReinit(t, reinit.Request{Instance: "shop-1", Token: "one"}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "status.reinit") {
		t.Errorf("%q, %v", out, err)
	}
}
