//go:build postgres

package replicate

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestASlotThatThePrimaryHasLostCountsAsNotKept: the one that a former primary has may be the last of that name.
func TestASlotThatThePrimaryHasLostCountsAsNotKept(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < 17 {
			t.Skip("it knows of no slots that survive a failover")
		}
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{
			"wal_level": "logical", "max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB",
		}})
		conn, err := pgx.Connect(t.Context(), server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		server.SQL("SELECT pg_create_logical_replication_slot('cdc', 'pgoutput', false, false, true)")
		kept := func() []string {
			names, err := slotNames(t.Context(), conn, keptSlots, []string{"cdc", "other"})
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		if got := kept(); !slices.Equal(got, []string{"cdc"}) {
			t.Errorf("of a slot that gives rows it says %v", got)
		}
		for range 4 {
			server.SQL("SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()")
		}
		server.SQL("CHECKPOINT")
		if reason := server.SQL("SELECT invalidation_reason FROM pg_replication_slots"); reason != "wal_removed" {
			t.Fatalf("the slot was not lost: %q", reason)
		}
		if got := kept(); len(got) > 0 {
			t.Errorf("of a slot that was lost it says %v", got)
		}
	})
}
