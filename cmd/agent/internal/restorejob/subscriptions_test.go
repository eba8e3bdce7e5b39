//go:build postgres

package restorejob

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestSubscriptionsOfACopyAreDisabledUnlessTheyShallGoOn(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.exec("CREATE SUBSCRIPTION orders CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 'orders')")
		b.exec("CREATE SUBSCRIPTION off CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false)")
		b.exec("ALTER SUBSCRIPTION orders ENABLE")
		b.backup()
		for disable, want := range map[bool][]string{true: nil, false: {"orders"}} {
			b, task := b.at(t), b.task(agentapi.RestoreTarget{})
			task.DisableSubscriptions = disable
			o := b.restore(b.store, task)
			var enabled []string
			b.ask(o, func(conn *pgx.Conn) error {
				rows, err := conn.Query(t.Context(), "SELECT subname::text FROM pg_subscription WHERE subenabled")
				if err == nil {
					enabled, err = pgx.CollectRows(rows, pgx.RowTo[string])
				}
				return err
			})
			if !slices.Equal(enabled, want) || disable != slices.Equal(o.result.DisabledSubscriptions, []string{"postgres.orders"}) {
				t.Errorf("disable %t: %v are enabled, and it says %v", disable, enabled, o.result.DisabledSubscriptions)
			}
		}
	})
}

// TestDataThatIsRestoredInPlaceKnowsWhatMustNotContinue: publishers skip silently what their slots have passed, and a slot that the data doesn't know
// of would be created anew under a client that has read from the former one.
func TestDataThatIsRestoredInPlaceKnowsWhatMustNotContinue(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.exec("CREATE SUBSCRIPTION orders CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = 'orders')")
		b.exec("ALTER SUBSCRIPTION orders ENABLE")
		b.backup()
		task := b.task(agentapi.RestoreTarget{})
		task.InPlace, task.DisableSubscriptions, task.LostSlots = true, true, []string{"cdc"}
		o := b.restore(b.store, task)
		if !slices.Equal(o.result.DisabledSubscriptions, []string{"postgres.orders"}) {
			t.Errorf("%v are disabled", o.result.DisabledSubscriptions)
		}
		b.ask(o, func(conn *pgx.Conn) error {
			var enabled, ours bool
			if err := conn.QueryRow(t.Context(), "SELECT subenabled, m.ours FROM pg_subscription JOIN howdah_slots.subscriptions m ON m.name = subname").Scan(&enabled, &ours); err != nil {
				t.Error(err)
			}
			if enabled || !ours {
				t.Errorf("enabled %t, ours %t", enabled, ours)
			}
			keeper := logicalslot.Keeper{Server: local.Server{SocketDir: conn.Config().Host, Port: int(conn.Config().Port)}, Major: pg.Major, Now: time.Now}
			states, err := keeper.Keep(t.Context(), []agentapi.ReplicationSlot{{Name: "cdc", Database: "postgres", Plugin: "pgoutput"}})
			if err != nil || states[0].State != agentapi.SlotLost {
				t.Errorf("%+v, %v", states, err)
			}
			return nil
		})
	})
}
