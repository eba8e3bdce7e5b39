//go:build postgres

package supervise

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// newLogicalPair makes a pair with a publication and a slot that shall survive a failover, or skips the test below 17.
func newLogicalPair(t *testing.T) *pair {
	t.Helper()
	installed := pgtest.Installed(t)
	if major := installed[len(installed)-1].Major; major < 17 {
		t.Skipf("PostgreSQL %d doesn't synchronise logical slots", major)
	}
	two, _ := newPair(t)
	config := two.first.with(map[string]string{"wal_level": "logical", "max_slot_wal_keep_size": "1GB", "wal_keep_size": "128MB"})
	two.first.configure(config)
	two.second.configure(config)
	two.run()
	two.first.sql("CREATE TABLE public.rows (n int PRIMARY KEY)")
	two.first.sql("CREATE PUBLICATION cdc FOR TABLE public.rows")
	two.first.sql("SELECT pg_create_logical_replication_slot('cdc', 'pgoutput', false, false, true)::text")
	return two
}

// await waits until a statement says something.
func (p *pod) awaitSQL(statement, want string) {
	p.t.Helper()
	got := ""
	p.await("say "+want+" to "+statement, func() bool {
		got = p.sql(statement)
		return got == want
	})
}

const changes = `(slot, NULL, NULL, 'proto_version', '1', 'publication_names', 'cdc') WHERE get_byte(data, 0) = ascii('I')`

// consume reads the rows that the slot has not given yet.
func (p *pod) consume() string {
	p.t.Helper()
	return p.sql("SELECT coalesce(string_agg(substr(encode(data, 'escape'), length(encode(data, 'escape'))), '' ORDER BY lsn), '') FROM pg_logical_slot_get_binary_changes" +
		strings.Replace(changes, "slot", "'cdc'", 1))
}

// copied waits until a replica has a copy of the slot that it can continue with. PostgreSQL makes one once the client has moved on.
func (c *pair) copied(from, to *pod) {
	to.t.Helper()
	to.awaitFor(time.Minute, "have a copy of the slot", func() bool {
		from.sql("SELECT pg_log_standby_snapshot()::text")
		if got := from.consume(); got != "" {
			to.t.Fatalf("the slot gave %q again", got)
		}
		return to.agent.Status().State == agentapi.StateRunning && to.sql(isSynced) == "1"
	})
}

func (p *pod) insert(rows ...int) {
	p.t.Helper()
	for _, n := range rows {
		p.sql("INSERT INTO public.rows VALUES (" + strconv.Itoa(n) + ")")
	}
}

const (
	isSynced = "SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = 'cdc' AND failover AND synced AND NOT temporary AND invalidation_reason IS NULL"
	waitsFor = "SELECT current_setting('synchronized_standby_slots')"
)

func (p *pod) handOver(t *testing.T, token string) {
	t.Helper()
	p.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) == 1 })
	if got := p.agent.Election().Switchover(agentapi.SwitchoverRequest{Token: token}); got.State != agentapi.SwitchoverRunning {
		t.Fatalf("%+v", got)
	}
}

func TestALogicalSlotGoesWithThePrimaryAndBack(t *testing.T) {
	subset.OneIn(t, 3)
	two := newLogicalPair(t)
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
	two.first.insert(1, 2)
	if got := two.first.consume(); got != "12" {
		t.Fatalf("the slot gave %q", got)
	}
	two.copied(two.first, two.second)
	two.first.insert(3, 4)
	two.first.handOver(t, "there")
	two.second.await("take over", two.second.public.ready)
	two.second.insert(5)
	two.second.awaitSQL(waitsFor, "howdah_shop_0")
	if got := two.second.consume(); got != "345" {
		t.Errorf("the slot gave %q at the next primary", got)
	}
	// The former primary has a slot of that name that isn't a copy, which would keep copies of all slots away.
	two.copied(two.second, two.first)
	two.second.insert(6)
	two.second.handOver(t, "back")
	two.first.await("take over", func() bool { return two.first.agent.Status().Role == rolePrimary && two.first.public.ready() })
	two.first.insert(7)
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
	if got := two.first.consume(); got != "67" {
		t.Errorf("the slot gave %q at the first primary", got)
	}
}

func TestALogicalClientWaitsForThoseWhoMayTakeOverAndForNobodyElse(t *testing.T) {
	two := newLogicalPair(t)
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
	two.second.terminate(time.Minute)
	two.first.insert(1)
	if got := two.first.consume(); got != "1" {
		t.Errorf("the slot gave %q", got)
	}
	if slots, members := two.first.sql(waitsFor), two.first.agent.Status().Election.Members; slots != "" || len(members) > 0 {
		t.Errorf("the client had the row while it was to wait for %q of the members %v", slots, members)
	}
	two.second.start()
	two.awaitStreaming()
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
}

func TestAServerEndsWhileALogicalClientWaitsForAReplicaThatIsAway(t *testing.T) {
	two := newLogicalPair(t)
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
	stream := two.first.stream(t)
	two.second.terminate(time.Minute)
	two.first.insert(1)
	two.first.endsInOrder(t)
	_ = stream.Close(context.Background())
}

// A shutdown of PostgreSQL waits for a minute for a client that says nothing.
func TestAServerEndsWhileALogicalClientSaysNothing(t *testing.T) {
	two := newLogicalPair(t)
	two.first.awaitSQL(waitsFor, "howdah_shop_1")
	stream := two.first.stream(t)
	two.first.insert(1)
	two.first.awaitSQL("SELECT (sent_lsn >= pg_current_wal_flush_lsn())::text FROM pg_stat_replication WHERE usename = 'postgres'", "true")
	two.first.endsInOrder(t)
	_ = stream.Close(context.Background())
	two.second.await("take over", two.second.public.ready)
	two.second.awaitSQL("SELECT count(*)::text FROM public.rows", "1")
}

// endsInOrder has a primary end whatever its clients do: within less than wal_sender_timeout, and cleanly.
func (p *pod) endsInOrder(t *testing.T) {
	t.Helper()
	began := time.Now()
	if err := p.terminate(30 * time.Second); err != nil {
		t.Errorf("it did not end in order: %v", err)
	}
	t.Logf("it ended after %v", time.Since(began).Round(time.Millisecond))
	if log := p.log.String(); !strings.Contains(log, "database system is shut down") {
		t.Error("it was not shut down cleanly")
	}
}

// stream has a client that stays connected read the slot.
func (p *pod) stream(t *testing.T) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres replication=database", p.SocketDir, p.Port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT cdc LOGICAL 0/0 (proto_version '1', publication_names 'cdc')"})
	if err := conn.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		message, err := conn.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, streams := message.(*pgproto3.CopyBothResponse); streams {
			return conn
		}
	}
}
