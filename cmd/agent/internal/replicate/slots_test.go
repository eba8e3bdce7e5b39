//go:build postgres

package replicate

import (
	"testing"

	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestSlotsAreKeptForPeersAndForNobodyElse(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 3)
		primary, n := b.found(), b.nodes[1]
		primary.sql("SELECT pg_create_physical_replication_slot('somebody_elses')")
		primary.sql("SELECT pg_create_physical_replication_slot('howdah_shop_9')")
		primary.keepSlots(nil)
		const names = "SELECT string_agg(slot_name, ' ' ORDER BY slot_name) FROM pg_replication_slots"
		if got := primary.sql(names); got != "howdah_shop_1 howdah_shop_2 somebody_elses" {
			t.Errorf("at the primary: %s", got)
		}
		n.join(primary)
		before := n.keepSlots(nil)
		primary.sql("SELECT pg_switch_wal()")
		primary.insert(10)
		primary.sql("CHECKPOINT")
		n.awaitLevel(primary)
		n.sql("CHECKPOINT") // a restartpoint
		positions := primary.keepSlots(nil)
		positions["shop-0"] = uint64(primary.position().LSN)
		n.keepSlots(positions)
		after := n.keepSlots(nil)
		if after["shop-0"] <= before["shop-0"] || after["shop-0"] > uint64(primary.position().LSN) {
			t.Errorf("for the primary it was %d and is %d", before["shop-0"], after["shop-0"])
		}
		if after["shop-2"] != before["shop-2"] || after["shop-2"] == 0 {
			t.Errorf("for one that never came it was %d and is %d", before["shop-2"], after["shop-2"])
		}
		if got := n.sql(names); got != "howdah_shop_0 howdah_shop_2" {
			t.Errorf("at the replica: %s", got)
		}
		b.nodes = b.nodes[:2]
		primary.keepSlots(nil)
		if got := primary.sql(names); got != "howdah_shop_1 somebody_elses" {
			t.Errorf("after one is gone for good: %s", got)
		}
	})
}

func TestASlotThatHasLostItsWALIsCreatedAgain(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg, 2)
		b.config.Parameters["max_slot_wal_keep_size"], b.config.Parameters["wal_keep_size"] = "16MB", "0"
		if pg.Major >= 17 {
			b.config.Parameters["summarize_wal"] = "off" // it keeps WAL back, too
		}
		primary := b.found()
		primary.keepSlots(nil)
		const status = "SELECT wal_status FROM pg_replication_slots"
		for range 4 {
			primary.insert(1)
			primary.sql("SELECT pg_switch_wal()")
		}
		primary.sql("CHECKPOINT")
		if got := primary.sql(status); got != "lost" {
			t.Fatalf("the slot is %s", got)
		}
		primary.keepSlots(nil)
		if got := primary.sql(status); got != "reserved" {
			t.Errorf("the slot is %s", got)
		}
	})
}
