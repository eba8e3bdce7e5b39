package report

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

func TestTheStatusSaysWhatBecameOfEachDeclaredSlot(t *testing.T) {
	dropAt := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, test := range map[string]struct {
		slot                 agentapi.SlotStatus
		status, reason, says string
	}{
		"as declared":     {agentapi.SlotStatus{State: agentapi.SlotReady, Active: true, RetainedBytes: 3 << 20}, "True", v1alpha1.ReasonCurrent, "as spec declares"},
		"dropped":         {agentapi.SlotStatus{State: agentapi.SlotAbsent}, "True", v1alpha1.ReasonCurrent, "as spec declares"},
		"lost":            {agentapi.SlotStatus{State: agentapi.SlotLost, Message: "it was created"}, "False", v1alpha1.ReasonSlotLost, "Replication slot cdc: it was created."},
		"another":         {agentapi.SlotStatus{State: agentapi.SlotConflict, Message: "its plugin"}, "False", v1alpha1.ReasonNotAsDeclared, "cdc: its plugin."},
		"over its limit":  {agentapi.SlotStatus{State: agentapi.SlotOverLimit, DropAt: dropAt, Message: "it holds back"}, "False", v1alpha1.ReasonNotAsDeclared, "it holds back."},
		"not created yet": {agentapi.SlotStatus{State: agentapi.SlotCreating, Message: "it waits"}, "False", v1alpha1.ReasonNotAsDeclared, "it waits."},
	} {
		o := observedtest.Running(func(o *observed.Cluster) { o.Cluster.Spec.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: "cdc"}} })
		reported := func() (string, string, string) {
			Write(o, flow.Next)
			got := meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicationSlotsReady)
			return string(got.Status), got.Reason, got.Message
		}
		if status, reason, _ := reported(); status != "False" || reason != v1alpha1.ReasonApplying {
			t.Errorf("%s: before anybody looked it says %s %s", name, status, reason)
		}
		test.slot.Name = "cdc"
		o.Agents["shop-0"].Slots = &agentapi.SlotsStatus{Hash: agentapi.SlotsHash(desired.AgentConfig(o).ReplicationSlots), Slots: []agentapi.SlotStatus{test.slot}}
		status, reason, message := reported()
		if status != test.status || reason != test.reason || !strings.Contains(message, test.says) {
			t.Errorf("%s: %s %s %s", name, status, reason, message)
		}
		slot := o.Cluster.Status.ReplicationSlots[0]
		if slot.Name != "cdc" || string(slot.State) != string(test.slot.State) || slot.Active != test.slot.Active || slot.RetainedWALBytes > test.slot.RetainedBytes ||
			(slot.DropTime != nil) != !test.slot.DropAt.IsZero() {
			t.Errorf("%s: %+v", name, slot)
		}
		delete(o.Agents, "shop-0")
		if _, after, _ := reported(); after != reason || len(o.Cluster.Status.ReplicationSlots) != 1 {
			t.Errorf("%s: an agent that doesn't respond for a moment changes it", name)
		}
		o.Cluster.Spec.ReplicationSlots = nil
		Write(o, flow.Next)
		if meta.FindStatusCondition(o.Cluster.Status.Conditions, v1alpha1.ConditionReplicationSlotsReady) != nil || o.Cluster.Status.ReplicationSlots != nil {
			t.Errorf("%s: it stays when nothing is declared", name)
		}
	}
}
