//go:build postgres

package supervise

import (
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

func (p *pod) awaitSlot(state agentapi.SlotState) agentapi.SlotStatus {
	p.t.Helper()
	status := p.awaitStatus("say "+string(state)+" of the slot", func(status agentapi.Status) bool {
		return status.Slots != nil && len(status.Slots.Slots) == 1 && status.Slots.Slots[0].State == state
	})
	return status.Slots.Slots[0]
}

// TestADeclaredSlotThatASwitchoverLosesIsNotCreatedAgain: no replica has a copy of it, so the next primary knows of it by the record
// alone. A new slot would begin later than where its client ended.
func TestADeclaredSlotThatASwitchoverLosesIsNotCreatedAgain(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	two, _ := newPair(t)
	// The harness keeps so little WAL that the slot could be lost before the switchover.
	config := two.first.with(map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1GB", "wal_keep_size": "128MB"})
	config.ReplicationSlots = []agentapi.ReplicationSlot{{Name: "cdc", Database: "shop", Plugin: "pgoutput"}}
	two.first.configure(config)
	two.second.configure(config)
	two.run()
	two.first.awaitSlot(agentapi.SlotReady)
	two.first.handOver(t, "there")
	two.second.await("take over", two.second.public.ready)
	if got := two.second.awaitSlot(agentapi.SlotLost); !strings.Contains(got.Message, "a failover") {
		t.Error(got.Message)
	}
	if got := two.second.sql("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = 'cdc'"); got != "0" {
		t.Errorf("there are %s slots", got)
	}
	if two.first.agent.Status().Slots != nil {
		t.Error("a replica still speaks of the slots of the primary")
	}
	for _, absent := range []bool{true, false} { // a person knows that the client begins anew
		config.ReplicationSlots = []agentapi.ReplicationSlot{{Name: "cdc", Absent: true}}
		want := agentapi.SlotAbsent
		if !absent {
			config.ReplicationSlots = []agentapi.ReplicationSlot{{Name: "cdc", Database: "shop", Plugin: "pgoutput"}}
			want = agentapi.SlotReady
		}
		two.first.configure(config)
		two.second.configure(config)
		two.second.awaitSlot(want)
	}
}
