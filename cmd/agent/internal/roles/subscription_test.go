//go:build postgres

package roles

import (
	"os"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

const subscriberPassword = `it's a "pass\word"`

// newPublisher is a server with the table orders, which is published.
func newPublisher(t *testing.T, pg pgtest.Installation) *bed {
	t.Helper()
	b := &bed{Server: pgtest.Start(t, pgtest.Options{
		Major: pg.Major, HBA: "local all postgres trust\nlocal all all scram-sha-256\n", Params: map[string]string{"wal_level": "logical"},
	}), t: t, major: pg.Major}
	b.local = local.Server{SocketDir: b.SocketDir, Port: 5432}
	b.SQL("CREATE TABLE public.orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1); CREATE PUBLICATION orders FOR TABLE orders; " +
		"CREATE ROLE reader LOGIN REPLICATION PASSWORD 'it''s a \"pass\\word\"'; GRANT SELECT ON orders TO reader")
	return b
}

func TestASubscriptionIsKeptAndItsPasswordIsNowhereToBeSeen(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		publisher, b := newPublisher(t, pg), newBed(t, pg)
		b.SQL("ALTER SYSTEM SET log_statement = 'all'")
		b.Stop()
		b.Configure(map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "on"})
		b.Start()
		b.SQL("CREATE EXTENSION pg_stat_statements")
		orders := agentapi.Subscription{
			Name: "orders", Publications: []string{"orders"},
			Publisher: []agentapi.ConnectionOption{{Keyword: "host", Value: publisher.SocketDir}, {Keyword: "dbname", Value: "postgres"}, {Keyword: "user", Value: "reader"}},
		}
		declared := agentapi.Declared{Databases: []agentapi.Database{{Name: "shop", Subscriptions: []agentapi.Subscription{orders}}}}
		passwords := map[string]string{agentapi.PasswordKey("shop", "orders"): subscriberPassword}
		if pg.Major < leastSubscriptionMajor {
			if got := b.declare(declared, passwords); !strings.Contains(got, "PostgreSQL 15 runs the triggers of the tables as a superuser") {
				t.Error(got)
			}
			return
		}
		b.in("shop", "CREATE TABLE public.orders (id int PRIMARY KEY); ALTER TABLE orders OWNER TO app")
		if got := b.declare(declared, nil); got != "subscription orders in database shop: its password is not available from its Secret yet" {
			t.Error(got)
		}
		if got := b.declare(declared, passwords); !strings.Contains(got, "its owner app may not create subscriptions: add pg_create_subscription to inRoles") {
			t.Error(got)
		}
		b.SQL("GRANT pg_create_subscription TO app")
		wrong := map[string]string{agentapi.PasswordKey("shop", "orders"): "secret-that-is-wrong"}
		if got := b.declare(declared, wrong); !strings.Contains(got, "password authentication failed") || strings.Contains(got, "secret-that-is-wrong") {
			t.Error(got)
		}
		for range 2 {
			if got := b.declare(declared, passwords); got != "" {
				t.Fatal(got)
			}
		}
		b.expect("SELECT subname, pg_get_userbyid(subowner), subenabled, subslotname FROM pg_subscription", "orders|app|t|orders")
		b.awaitRows("1")

		// Statements that don't have the password are there, so the others would be.
		b.expect("SELECT count(*) > 0, count(*) FILTER (WHERE query ~* 'password=') FROM pg_stat_statements WHERE query ~ 'SUBSCRIPTION|pg_subscription'", "t|0")

		// In a copy of this cluster the subscription is disabled. Dropping it there takes the slot from nobody.
		declared.Databases[0].Subscriptions[0].Disabled = true
		if got := b.declare(declared, passwords); got != "" {
			t.Fatal(got)
		}
		publisher.SQL("INSERT INTO orders VALUES (2)")
		declared.Databases[0].Subscriptions[0] = agentapi.Subscription{Name: "orders", Absent: true}
		if got := b.declare(declared, nil) + b.SQL("SELECT count(*) FROM pg_subscription"); got != "0" {
			t.Fatal(got)
		}
		publisher.expect("SELECT slot_name FROM pg_replication_slots", "orders")

		orders.Slot = "again"
		b.in("shop", "TRUNCATE orders")
		declared.Databases[0].Subscriptions[0] = orders
		if got := b.declare(declared, passwords); got != "" {
			t.Fatal(got)
		}
		b.awaitRows("1,2")
		declared.Databases[0].Subscriptions[0] = agentapi.Subscription{Name: "orders", Absent: true}
		if got := b.declare(declared, nil); got != "" {
			t.Fatal(got)
		}
		publisher.expect("SELECT string_agg(slot_name, ',') FROM pg_replication_slots", "orders")
		log, err := os.ReadFile(b.LogFile)
		if err != nil || strings.Contains(string(log), "pass\\") || strings.Contains(string(log), "secret-that-is-wrong") {
			t.Errorf("the password is in the log: %v", err)
		}
	})
}

// awaitRows waits for what the subscription brings.
func (b *bed) awaitRows(want string) {
	b.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		got := strings.TrimSpace(b.in("shop", "SELECT string_agg(id::text, ',' ORDER BY id) FROM orders"))
		if got == want {
			return
		}
		select {
		case <-deadline:
			b.t.Fatalf("the table has %q instead of %q", got, want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
