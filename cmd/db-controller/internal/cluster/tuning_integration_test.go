//go:build integration

package cluster

import (
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// TestMaxWALSizeGrowsWhileCheckpointsComeEarly with each write the last of its process.
func TestMaxWALSizeGrowsWhileCheckpointsComeEarly(t *testing.T) {
	l := newLab(t)
	l.patience *= 4
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Tuning = v1alpha1.TuningAutomatic })
	l.awaitRunning(shop)
	l.mortals(1)
	l.kube.set(func(s *standIn) {
		s.answer = func(status *agentapi.Status) {
			status.Tuned, status.Volume = map[string]string{"max_wal_size": "1024MB"}, &agentapi.VolumeStatus{Bytes: 40 << 30, UsedBytes: 1 << 30}
			status.Findings = &agentapi.Findings{Found: []agentapi.LoadFinding{{Reason: agentapi.FindingCheckpointsRequested, Evidence: "15 of 17.", Advice: "Set it."}}}
		}
	})
	l.eventually("it is found", func() bool { l.get(shop); return len(shop.Status.Findings) == 1 })
	l.clock.forward(31 * time.Minute)
	l.nudge(shop)
	l.eventually("the agent is told of more", func() bool { return l.told().Parameters["max_wal_size"] == "2048MB" })
	if l.get(shop); shop.Status.AutomaticTuning.Reason != "15 of 17." || len(shop.Spec.PostgreSQL.Parameters) != 0 {
		t.Errorf("%+v", shop.Status.AutomaticTuning)
	}
	l.change(shop, func() { shop.Spec.Tuning = v1alpha1.TuningManual })
	l.eventually("it is as before", func() bool {
		l.get(shop)
		return l.told().Parameters["max_wal_size"] == "" && shop.Status.AutomaticTuning == nil
	})
}
