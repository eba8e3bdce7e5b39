//go:build postgres

package roles

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// subscribing is a subscription to a publisher, with what it takes to declare it.
type subscribing struct {
	*bed
	publisher *bed
	orders    agentapi.Subscription
	told      logicalslot.Told
}

func newSubscribing(t *testing.T, pg pgtest.Installation) *subscribing {
	t.Helper()
	s := &subscribing{bed: newBed(t, pg), publisher: newPublisher(t, pg)}
	s.in("shop", "CREATE TABLE public.orders (id int PRIMARY KEY); ALTER TABLE orders OWNER TO app")
	s.SQL("GRANT pg_create_subscription TO app")
	s.orders = agentapi.Subscription{
		Name: "orders", Publications: []string{"orders"},
		Publisher: []agentapi.ConnectionOption{{Keyword: "host", Value: s.publisher.SocketDir}, {Keyword: "dbname", Value: "postgres"}, {Keyword: "user", Value: "reader"}},
	}
	return s
}

// keep declares the subscription, and returns the problem with it.
func (s *subscribing) keep() string {
	s.t.Helper()
	problems, err := Declare(s.t.Context(), s.local, Desired{
		Declared: agentapi.Declared{Databases: []agentapi.Database{{Name: "shop", Subscriptions: []agentapi.Subscription{s.orders}}}},
		Major:    s.major, Database: "shop", Owner: "app", Told: s.told,
		Passwords: map[string]string{agentapi.PasswordKey("shop", "orders"): subscriberPassword},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(problems, "; ")
}

// refuses expects a problem, and that the subscription stays disabled.
func (s *subscribing) refuses(parts ...string) {
	s.t.Helper()
	for range 2 {
		problem := s.keep()
		for _, part := range parts {
			if !strings.Contains(problem, part) {
				s.t.Errorf("%q doesn't say %q", problem, part)
			}
		}
		s.expect("SELECT subenabled FROM pg_subscription", "f")
	}
}

// again drops the subscription and creates it anew, and returns the problem with that.
func (s *subscribing) again() string {
	s.t.Helper()
	present := s.orders
	s.orders = agentapi.Subscription{Name: "orders", Absent: true}
	s.mustKeep()
	s.in("shop", "TRUNCATE orders")
	s.orders = present
	return s.keep()
}

// back puts the data back to an earlier state, as a Job does.
func (s *subscribing) back(back logicalslot.Back) {
	s.t.Helper()
	if _, err := logicalslot.GoBack(s.t.Context(), s.local, back, slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subscribing) mustKeep() {
	s.t.Helper()
	if problem := s.keep(); problem != "" {
		s.t.Fatal(problem)
	}
}

// await waits until a statement gives this.
func (s *subscribing) await(on *bed, statement, want string) {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
	for on.SQL(statement) != want {
		select {
		case <-deadline:
			s.t.Fatalf("%s gives %q instead of %q", statement, on.SQL(statement), want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// standbys has commits wait for these replicas. A reload would take effect some time later.
func (s *subscribing) standbys(names string) {
	s.t.Helper()
	s.Stop()
	s.Configure(map[string]string{"synchronous_standby_names": names})
	s.Start()
}

// eachSubscriber runs a test with each version that subscriptions are declared in.
func eachSubscriber(t *testing.T, do func(*subscribing)) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < leastSubscriptionMajor {
			t.Skip("no subscription is declared in this version")
		}
		do(newSubscribing(t, pg))
	})
}

// TestASubscriptionConfirmsOnlyWhatTheReplicasHave, which don't come here: a failover would lose what the publisher sends no second time.
func TestASubscriptionConfirmsOnlyWhatTheReplicasHave(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		s.mustKeep()
		s.awaitRows("1")
		for _, before := range []string{"as it was created", "off"} {
			if before == "off" {
				s.in("shop", "ALTER SUBSCRIPTION orders SET (synchronous_commit = off)")
			}
			s.mustKeep()
			s.standbys("nobody")
			s.publisher.SQL("INSERT INTO orders SELECT max(id) + 1 FROM orders")
			at := s.publisher.SQL("SELECT pg_current_wal_lsn()")
			s.await(s.bed, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "t")
			s.publisher.expect(fmt.Sprintf("SELECT confirmed_flush_lsn < '%s' FROM pg_replication_slots", at), "t")
			s.standbys("")
			s.await(s.publisher, fmt.Sprintf("SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots", at), "t")
		}
		s.in("shop", "ALTER SUBSCRIPTION orders SET (synchronous_commit = remote_apply)") // a person wants more
		s.mustKeep()
		s.expect("SELECT subsynccommit FROM pg_subscription", "remote_apply")
	})
}

// TestASubscriptionThatKnowsNoTablesIsNotEnabled: it would skip the changes of all tables, and confirm them. pg_upgrade from 16 leaves one like that.
func TestASubscriptionThatKnowsNoTablesIsNotEnabled(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		s.publisher.SQL("SELECT pg_create_logical_replication_slot('orders', 'pgoutput')")
		s.in("shop", "CREATE SUBSCRIPTION orders CONNECTION 'dbname=x' PUBLICATION orders WITH (connect = false, slot_name = 'orders')")
		s.publisher.SQL("INSERT INTO orders VALUES (2)")
		if got := s.keep(); !strings.Contains(got, "knows none of its tables") {
			at := s.publisher.SQL("SELECT pg_current_wal_lsn()")
			s.await(s.publisher, fmt.Sprintf("SELECT confirmed_flush_lsn >= '%s' FROM pg_replication_slots", at), "t")
			s.t.Errorf("it says %q, has the rows %q, and has confirmed all", got, s.in("shop", "SELECT string_agg(id::text, ',') FROM orders"))
		}
	})
}

const marks = "SELECT count(*) FROM howdah_slots.subscriptions"

// TestASubscriptionOfRestoredDataIsNotEnabled: PostgreSQL would skip silently what its slot at the publisher has passed since.
func TestASubscriptionOfRestoredDataIsNotEnabled(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		s.mustKeep()
		s.awaitRows("1")
		s.back(logicalslot.Back{Subscriptions: true})
		s.publisher.SQL("INSERT INTO orders VALUES (2)")
		s.refuses("its data was restored to an earlier state", "set ensure: Absent, empty its tables, and set ensure: Present, which copies them again")
		if problem := s.again(); problem != "" {
			t.Fatal(problem)
		}
		s.awaitRows("1,2")
		s.expect(marks, "0")

		s.back(logicalslot.Back{Subscriptions: true})
		s.await(s.publisher, "SELECT active FROM pg_replication_slots", "f")
		s.publisher.SQL("SELECT pg_drop_replication_slot('orders')") // by a person, ahead of the subscription
		if problem := s.again(); problem != "" {
			t.Fatal(problem)
		}
		s.awaitRows("1,2")

		s.back(logicalslot.Back{Subscriptions: true})
		s.in("shop", "ALTER SUBSCRIPTION orders ENABLE") // a person knows better
		s.mustKeep()
		s.expect(marks, "0")
	})
}

// TestASubscriptionOfACopyIsNotEnabledAndLeavesTheSlotToItsCluster, and says so.
func TestASubscriptionOfACopyIsNotEnabledAndLeavesTheSlotToItsCluster(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		s.mustKeep()
		s.awaitRows("1")
		s.back(logicalslot.Back{Subscriptions: true, Copy: true})
		s.orders.NoCopy = true
		s.refuses("its data is a copy", "drop its slot orders at the publisher unless another cluster uses it", "and copyData: true")
		s.orders.NoCopy = false
		if problem := s.again(); !strings.Contains(problem, "the publisher has a slot orders already") || !strings.Contains(problem, "otherwise set another slotName") {
			t.Error(problem)
		}
		s.publisher.expect("SELECT slot_name FROM pg_replication_slots", "orders")
		s.orders.Slot = "copy"
		s.mustKeep()
		s.awaitRows("1")
		s.publisher.expect("SELECT string_agg(slot_name, ',' ORDER BY slot_name) FROM pg_replication_slots", "copy,orders")
	})
}

// TestASubscriptionWhoseDataWasBroughtBackIsNotEnabled, and what it was before that, it stays.
func TestASubscriptionWhoseDataWasBroughtBackIsNotEnabled(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		for _, number := range []int64{1, 2} {
			s.told.Adoption = generation.Adoption{ClusterUID: "a", Number: number, DataGeneration: "g0"}
			s.mustKeep()
			s.awaitRows("1")
		}
		s.told.Number = 4
		s.refuses("its data was brought back by an undo or a rollback")
		s.await(s.bed, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^logical replication (apply )?worker'", "0")
		s.in("shop", "ALTER SUBSCRIPTION orders ENABLE")
		s.mustKeep()
		s.publisher.SQL("INSERT INTO orders VALUES (2)")
		s.awaitRows("1,2")
	})
}

// TestNoSubscriptionIsEnabledOnAForeignRecord, which may lack what must not be enabled.
func TestNoSubscriptionIsEnabledOnAForeignRecord(t *testing.T) {
	eachSubscriber(t, func(s *subscribing) {
		s.mustKeep()
		s.in("shop", "ALTER SUBSCRIPTION orders DISABLE")
		s.SQL("CREATE SCHEMA howdah_slots AUTHORIZATION app")
		s.refuses("schema howdah_slots in database postgres isn't as postgres has created it")
	})
}
