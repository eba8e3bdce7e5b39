//go:build integration

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/pause"
)

func TestAPauseIsWrittenAndTakenBackAndLeavesTheRest(t *testing.T) {
	c, cluster := newCluster(t, func(spec *v1alpha1.PostgresClusterSpec) {
		spec.Repair, spec.Failover = &v1alpha1.Repair{KeepReplacedCopies: true}, &v1alpha1.Failover{Profile: v1alpha1.FailoverPatient}
	})
	key, now := client.ObjectKeyFromObject(cluster), time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
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
	if spec := read(); !spec.Repair.Paused(now.Add(23*time.Hour)) || spec.Repair.Paused(now.Add(24*time.Hour)) || !spec.Repair.KeepReplacedCopies ||
		spec.Failover.PausedUntil != nil || !strings.HasPrefix(out.String(), "Automatic repair of shop is paused until 2026-03-02T12:00:00Z: ") {
		t.Errorf("%+v, %+v, %s", spec.Repair, spec.Failover, out.String())
	}
	if err := (pause.Request{For: time.Hour, Failover: true}).Begin(t.Context(), c, key, now, io.Discard); err != nil {
		t.Fatal(err)
	}
	if spec := read(); !spec.Failover.PausedUntil.Equal(spec.Repair.PausedUntil) {
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
