//go:build postgres

package restorejob

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

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
