//go:build integration

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/pause"
)

// beginPause is ask with this command, at noon.
type beginPause struct{ pause.Request }

var noon = time.Date(2126, 3, 1, 12, 0, 0, 5, time.UTC)

func (b beginPause) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	return b.Begin(ctx, c, key, noon, out)
}

// askPause is ask with this command, of a cluster with this spec.
func askPause(t *testing.T, request pause.Request, change func(*v1alpha1.PostgresClusterSpec), respond func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	request.Wait = true
	return ask(t, beginPause{request}, change, func(spec v1alpha1.PostgresClusterSpec) bool {
		return spec.Repair != nil && spec.Repair.PausedUntil != nil
	}, respond)
}

// confirm is the db-controller by whose clock these are paused.
func confirm(kinds ...string) func(*v1alpha1.PostgresCluster) {
	return func(cluster *v1alpha1.PostgresCluster) {
		for _, kind := range kinds {
			meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPaused, ObservedGeneration: cluster.Generation,
			})
		}
	}
}

func TestWhatIsPausedIsSaidOnceItIs(t *testing.T) {
	later := metav1.NewTime(noon.Add(8 * time.Hour).Truncate(time.Second))
	past := metav1.NewTime(noon.Add(-time.Hour).Truncate(time.Second))
	earlier := func(until metav1.Time) func(*v1alpha1.PostgresClusterSpec) {
		return func(spec *v1alpha1.PostgresClusterSpec) { spec.Failover = &v1alpha1.Failover{PausedUntil: &until} }
	}
	for name, c := range map[string]struct {
		request pause.Request
		change  func(*v1alpha1.PostgresClusterSpec)
		want    string
	}{
		"repairs":                      {pause.Request{}, nil, "another instance still takes over; --failover pauses that as well"},
		"failover, too":                {pause.Request{Failover: true}, nil, "no instance takes over either"},
		"failover was, until later":    {pause.Request{}, earlier(later), "no instance takes over before 2126-03-01T20:00:00Z"},
		"failover was, until the past": {pause.Request{}, earlier(past), "another instance still takes over"},
	} {
		c.request.For, c.request.Timeout = time.Hour, time.Minute
		out, err := askPause(t, c.request, c.change, confirm(v1alpha1.ConditionAutomaticRepair, v1alpha1.ConditionAutomaticFailover))
		if err != nil || !strings.HasPrefix(out, "Automatic repair of shop is paused until 2126-03-01T13:00:00Z: ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestAPauseThatHasNotBegunIsNotSaidToHave(t *testing.T) {
	for name, c := range map[string]struct {
		respond func(*v1alpha1.PostgresCluster)
		want    string
	}{
		"nobody says anything": {func(*v1alpha1.PostgresCluster) {}, "timed out after 2s; the pause is in spec.repair, but the db-controller doesn't say that it has begun: make sure that it runs"},
		"it is said of an earlier spec": {func(cluster *v1alpha1.PostgresCluster) {
			cluster.Generation-- // so says who has not seen it yet
			confirm(v1alpha1.ConditionAutomaticRepair)(cluster)
			cluster.Generation++
		}, "make sure that it runs"},
		"the clocks differ": {func(cluster *v1alpha1.PostgresCluster) {
			meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionAutomaticRepair, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEnabled, ObservedGeneration: cluster.Generation, Message: "Instances are restarted.",
			})
		}, "Check the clock of this machine: Instances are restarted."},
		"somebody ends it": {func(cluster *v1alpha1.PostgresCluster) { cluster.Spec.Repair = nil }, "somebody else has changed spec.repair"},
	} {
		out, err := askPause(t, pause.Request{For: time.Hour, Timeout: 2 * time.Second}, nil, c.respond)
		if out != "" || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestAPauseIsWrittenAndTakenBackAndLeavesTheRest(t *testing.T) {
	c, cluster := newCluster(t, func(spec *v1alpha1.PostgresClusterSpec) {
		spec.Repair, spec.Failover = &v1alpha1.Repair{KeepReplacedCopies: true}, &v1alpha1.Failover{Profile: v1alpha1.FailoverPatient}
	})
	key, now := client.ObjectKeyFromObject(cluster), noon
	read := func() *v1alpha1.PostgresClusterSpec {
		if err := c.Get(t.Context(), key, cluster); err != nil {
			t.Fatal(err)
		}
		return &cluster.Spec
	}
	var out strings.Builder
	if err := (pause.Request{For: 24 * time.Hour}).Begin(t.Context(), c, key, now, &out); err != nil {
		t.Fatal(err)
	}
	if spec := read(); !spec.Repair.Paused(now) || !spec.Repair.Paused(now.Add(23*time.Hour)) || spec.Repair.Paused(now.Add(24*time.Hour)) || !spec.Repair.KeepReplacedCopies ||
		spec.Failover.PausedUntil != nil || !strings.HasPrefix(out.String(), "Requested. The condition AutomaticRepair") {
		t.Errorf("%+v, %+v, %s", spec.Repair, spec.Failover, out.String())
	}
	if err := (pause.Request{For: time.Hour, Failover: true}).Begin(t.Context(), c, key, now, io.Discard); err != nil {
		t.Fatal(err)
	}
	if spec := read(); !spec.Failover.PausedUntil.Equal(spec.Repair.PausedUntil) || !spec.Repair.Paused(now.Add(-5*time.Minute)) { // another clock may be late
		t.Errorf("%+v, %+v", spec.Repair, spec.Failover)
	}
	if err := pause.End(t.Context(), c, key, io.Discard); err != nil {
		t.Fatal(err)
	}
	if spec := read(); spec.Repair.PausedFrom != nil || spec.Repair.PausedUntil != nil || !spec.Repair.KeepReplacedCopies ||
		spec.Failover.PausedUntil != nil || spec.Failover.Profile != v1alpha1.FailoverPatient {
		t.Errorf("%+v, %+v", spec.Repair, spec.Failover)
	}
	for _, d := range []time.Duration{0, 25 * time.Hour} {
		if err := (pause.Request{For: d}).Begin(t.Context(), c, key, now, io.Discard); err == nil || !strings.Contains(err.Error(), "from 1s to 24h") {
			t.Errorf("%v: %v", d, err)
		}
	}
}
