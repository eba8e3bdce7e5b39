//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestWhatIsBehindDoesNotContinueOnDataThatComesBack: an upgrade that was rolled back has taken the changes of a publisher, and its clients have
// read from the new data.
func TestWhatIsBehindDoesNotContinueOnDataThatComesBack(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	p := newPod(t)
	p.init("g2")
	config := p.with(map[string]string{"wal_level": "logical"})
	config.ReplicationSlots = []agentapi.ReplicationSlot{{Name: "cdc", Database: "shop", Plugin: "pgoutput"}}
	enabled := func() string {
		return p.sql("SELECT coalesce(string_agg(subenabled::text, ','), '') FROM pg_subscription")
	}
	for _, step := range []struct {
		adoptions  int64
		generation string
		state      agentapi.SlotState
		enabled    string
	}{
		{1, "g1", agentapi.SlotReady, "true"},
		{2, "g1", agentapi.SlotReady, "true"}, // a person's decision
		{3, "g2", agentapi.SlotReady, ""},
		{4, "g1", agentapi.SlotLost, "false"},
		{4, "g1", agentapi.SlotLost, "false"},
	} {
		config.Adoptions, config.DataGeneration = step.adoptions, step.generation
		p.configure(config)
		p.run()
		p.awaitSlot(step.state)
		back := step.adoptions == 4
		if got, want := p.sql("SELECT coalesce(string_agg(slot_name, ' ' ORDER BY slot_name), '') FROM pg_replication_slots WHERE slot_name LIKE '%mine'"),
			map[bool]string{true: "howdah_aside_4_mine", false: "mine"}[back]; got != want && step.adoptions != 1 && step.generation == "g1" {
			t.Errorf("adoption %d: the slots are %q, want %q", step.adoptions, got, want)
		}
		if step.adoptions == 1 {
			p.sql("SELECT slot_name::text FROM pg_create_logical_replication_slot('mine', 'pgoutput')")
			p.sql("CREATE SUBSCRIPTION orders CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 'orders')")
			p.sql("ALTER SUBSCRIPTION orders ENABLE")
		}
		if got := enabled(); got != step.enabled {
			t.Errorf("adoption %d of %s: enabled is %q, want %q", step.adoptions, step.generation, got, step.enabled)
		}
		if err := p.terminate(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}
