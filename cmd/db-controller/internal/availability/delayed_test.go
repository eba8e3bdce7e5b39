package availability_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestADelayedReplicaTakesNoRoleOverAndHoldsUpNothing(t *testing.T) {
	o := observedtest.Trio(nil)
	o.Cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-1", Delay: metav1.Duration{Duration: time.Hour}}}
	o.Agents["shop-1"].Replication = &agentapi.ReplicationStatus{DelaySeconds: 3600}
	if why := availability.Lags(o, "shop-1", o.Agents["shop-1"]); why != "" {
		t.Errorf("others wait for it: %s", why)
	}
	if heir := availability.Heir(o, 2); heir >= 0 {
		t.Errorf("shop-%d is to take over", heir)
	}
	o.Agents["shop-1"].Rejoin = &agentapi.RejoinStatus{Method: "Clone"}
	if why := availability.Lags(o, "shop-1", o.Agents["shop-1"]); why == "" {
		t.Error("nobody waits for its clone")
	}
}
