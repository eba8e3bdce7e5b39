//go:build integration

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/switchover"
)

// askSwitchover is ask with this command.
func askSwitchover(t *testing.T, request switchover.Request, respond func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	return ask(t, request, nil, func(spec v1alpha1.PostgresClusterSpec) bool { return spec.Switchover != nil }, respond)
}

func TestAPersonIsToldWhoIsThePrimaryNow(t *testing.T) {
	out, err := askSwitchover(t, switchover.Request{To: "shop-2", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{
			Token: cluster.Spec.Switchover.Token, From: "shop-0", To: cluster.Spec.Switchover.To, State: v1alpha1.SwitchoverDone,
		}
	})
	if err != nil || !strings.HasPrefix(out, "shop-2 is now the primary instead of shop-0.") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldThatNothingHadToChange(t *testing.T) {
	out, err := askSwitchover(t, switchover.Request{To: "shop-0", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Status.Switchover = &v1alpha1.SwitchoverStatus{Token: "one", From: "shop-0", To: "shop-0", State: v1alpha1.SwitchoverDone}
	})
	if err != nil || out != "shop-0 is the primary already.\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestAPersonIsToldWhyItWasRefused(t *testing.T) {
	_, err := askSwitchover(t, switchover.Request{To: "shop-9", Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
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
		c, cluster := newCluster(t, nil)
		cluster.Status.Switchover = &known
		if err := c.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		err := switchover.Request{Token: "two", Wait: true, Timeout: time.Second}.Ask(t.Context(), c, client.ObjectKeyFromObject(cluster), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWhoStopsWaitingIsToldHowToTakeTheRequestBack(t *testing.T) {
	c, cluster := newCluster(t, nil)
	key := client.ObjectKeyFromObject(cluster)
	takeBack := "kubectl patch postgrescluster shop -n " + key.Namespace + ` --type=merge -p '{"spec":{"switchover":null}}'`
	for want, until := range map[string]time.Duration{"timed out after 1s": time.Minute, "interrupted": time.Second} {
		ctx, stop := context.WithTimeout(t.Context(), until)
		err := switchover.Request{Token: "two", Wait: true, Timeout: time.Minute + time.Second - until}.Ask(ctx, c, key, io.Discard)
		stop()
		if err == nil || !strings.HasPrefix(err.Error(), want+"; spec.switchover stays as requested") || !strings.HasSuffix(err.Error(), takeBack) {
			t.Errorf("%s: %v", want, err)
		}
	}
	words := strings.SplitN(takeBack, "-p ", 2)
	must(t, c.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(strings.Trim(words[1], "'")))))
	if cluster.Spec.Switchover != nil {
		t.Error("it takes nothing back")
	}
}

func TestARequestOfSomebodyElseEndsTheWait(t *testing.T) {
	_, err := askSwitchover(t, switchover.Request{Token: "one", Wait: true, Timeout: time.Minute}, func(cluster *v1alpha1.PostgresCluster) {
		cluster.Spec.Switchover.Token = "another"
	})
	if err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutWaitingTheRequestIsWritten(t *testing.T) {
	out, err := askSwitchover(t, switchover.Request{Token: "one"}, func(*v1alpha1.PostgresCluster) {})
	if err != nil || !strings.Contains(out, "status.switchover") {
		t.Errorf("%q, %v", out, err)
	}
}
