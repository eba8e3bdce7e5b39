//go:build postgres

package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// sends waits until the clients of a read-only pooler are sent to these instances, which a desk has named.
func (b *bed) sends(to ...*instance) {
	b.t.Helper()
	want := map[string]bool{}
	for _, i := range to {
		want[i.place.Address] = true
	}
	b.until(fmt.Sprintf("clients are sent to %v", want), func() bool {
		got := map[string]bool{}
		for range 2 * len(to) {
			conn, err := pgx.Connect(b.t.Context(), b.dsn("app", "secret"))
			if err != nil {
				return false
			}
			defer conn.Close(context.Background())
			// A transaction stays open, so that no other client is given the same connection meanwhile.
			tx, err := conn.Begin(b.t.Context())
			if err != nil {
				return false
			}
			var address string
			var replica bool
			if err := tx.QueryRow(b.t.Context(), "SELECT host(inet_server_addr()), pg_is_in_recovery()").Scan(&address, &replica); err != nil || !replica {
				return false
			}
			got[address] = true
		}
		return maps.Equal(got, want)
	})
}

func replica(of *instance, lag int64) routing.Replica {
	return routing.Replica{PoolerReplica: agentapi.PoolerReplica{Pod: of.place.Pod, Address: of.place.Address}, Lag: lag}
}

func TestReadersAreSentToReplicasThatDontLag(t *testing.T) {
	b := newBed(t)
	primary := b.instance(0, nil)
	b.roles(primary)
	first, second := b.instance(1, standby(t, primary, b.port)), b.instance(2, standby(t, primary, b.port))
	primary.desk.Serve(true)
	primary.desk.Replicas([]routing.Replica{replica(first, 0), replica(second, 50)})
	b.lead(primary, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.ReadOnly, c.MaxLagBytes = true, 100 })
	b.sends(first, second)
	primary.desk.Replicas([]routing.Replica{replica(first, 101), replica(second, 50)})
	b.sends(second)
	// A replica may be promoted after it was named: readers that get there meanwhile see no error, and their sessions are read-only.
	primary.desk.Replicas([]routing.Replica{replica(primary, 0)})
	b.until("clients are sent to the primary", func() bool { return b.pooler.Serving() == "shop-0" })
	if conn := b.connect(); b.asked(conn) == primary.place.Address {
		var denied *pgconn.PgError
		if _, err := conn.Exec(t.Context(), "CREATE TABLE written ()"); !errors.As(err, &denied) || denied.Code != "25006" {
			t.Errorf("a reader writes: %v", err)
		}
	} else {
		t.Error("a reader is kept from the server that was named")
	}
	// The primary dies: readers stay with the replicas that it named last.
	primary.desk.Replicas([]routing.Replica{replica(first, 0), replica(second, 0)})
	b.sends(first, second)
	_ = primary.api.Close()
	primary.Kill()
	b.until("the agent of the primary is missed", func() bool { return b.pooler.Serving() == "shop-1, shop-2" })
	b.sends(first, second)
}

// readers is a pooler of readers with a limit, in front of a replica, which has a client.
func (b *bed) readers(change func(*agentapi.PoolerConfig)) (primary, first *instance, conn *pgx.Conn) {
	b.t.Helper()
	primary = b.instance(0, nil)
	b.roles(primary)
	first = b.instance(1, standby(b.t, primary, b.port))
	primary.desk.Serve(true)
	primary.desk.Replicas([]routing.Replica{replica(first, 0)})
	b.lead(primary, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.ReadOnly, c.MaxLagBytes, c.KnownLagOnly = true, 100, true
		c.Parameters = map[string]string{"query_wait_timeout": "2"}
		if change != nil {
			change(c)
		}
	})
	conn = b.connect()
	if got := b.asked(conn); got != first.place.Address {
		b.t.Fatalf("a reader is sent to %s", got)
	}
	return primary, first, conn
}

func TestReadersWithALimitWaitWhileThePrimaryDoesNotLook(t *testing.T) {
	b := newBed(t)
	primary, first, conn := b.readers(func(c *agentapi.PoolerConfig) { c.Parameters = nil })
	var answered chan string
	b.until("a query waits", func() bool { // the desk continues, and its server doesn't
		answered = make(chan string, 1)
		go func() {
			var address string
			if err := conn.QueryRow(t.Context(), "SELECT host(inet_server_addr())").Scan(&address); err != nil {
				address = err.Error()
			}
			answered <- address
		}()
		select {
		case <-answered:
			return false
		case <-time.After(time.Second):
			return true
		}
	})
	primary.desk.Replicas([]routing.Replica{replica(first, 0)})
	if got := <-answered; got != first.place.Address {
		t.Errorf("after the next look, the query got %s", got)
	}
}

func TestReadersGetAnErrorWhereNoReplicaIsWithinTheLimitForLong(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	primary, first, conn := b.readers(nil)
	primary.desk.Replicas([]routing.Replica{replica(first, 101)})
	b.untilWithin(agentapi.PoolerHold+pauseLimit+20*time.Second, "the pooler is not ready", func() bool { return b.pooler.Ready() != nil })
	begin := time.Now()
	if err := conn.QueryRow(t.Context(), "SELECT 1").Scan(new(int)); err == nil || !strings.Contains(err.Error(), "query_wait_timeout") {
		t.Errorf("a query is answered by a replica that lags, after %v: %v", time.Since(begin), err)
	}
	primary.desk.Replicas([]routing.Replica{replica(first, 0), replica(primary, 1000)})
	b.sends(first)
}

func TestANewReaderInSessionModeGetsAnErrorWhereNoReplicaIsWithinTheLimit(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	primary, first, _ := b.readers(func(c *agentapi.PoolerConfig) { c.Mode = "session" })
	primary.desk.Replicas([]routing.Replica{replica(first, 101)})
	b.until("the pooler is not ready", func() bool { return b.pooler.Ready() != nil })
	if conn, err := pgx.Connect(t.Context(), b.dsn("app", "secret")); err == nil {
		t.Errorf("a reader got to %s", b.asked(conn))
	}
	primary.desk.Replicas([]routing.Replica{replica(first, 0)})
	b.sends(first)
}

func TestAChangedLimitOfLagIsReadWithoutARestart(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	primary, first, _ := b.readers(func(c *agentapi.PoolerConfig) { c.KnownLagOnly = false })
	second := b.instance(2, standby(t, primary, b.port))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // as a primary looks
		for ctx.Err() == nil {
			primary.desk.Replicas([]routing.Replica{replica(first, 0), replica(second, 500)})
			time.Sleep(100 * time.Millisecond)
		}
	}()
	b.sends(first)
	b.config.MaxLagBytes = 500
	b.write(b.pooler.ConfigFile)
	b.sends(first, second)
}

func TestTheNextReaderOfAConnectionInSessionModeIsReadOnlyAndKnowsNothingOfTheOneBefore(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	_, _, before := b.readers(func(c *agentapi.PoolerConfig) { c.Mode, c.PoolSize = "session", 1 })
	pid := func(conn *pgx.Conn) (n int) {
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	server := pid(before)
	for _, statement := range []string{
		"SET default_transaction_read_only = off", "SET work_mem = '7MB'", "PREPARE p AS SELECT 1", "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "SELECT pg_advisory_lock(1)",
	} {
		if _, err := before.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	_ = before.Close(t.Context())
	conn := b.connect()
	var got string
	const state = "SELECT concat_ws(' ', current_setting('default_transaction_read_only'), current_setting('work_mem'), (SELECT count(*) FROM pg_prepared_statements), " +
		"(SELECT count(*) FROM pg_cursors WHERE name = 'c'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'))"
	if err := conn.QueryRow(t.Context(), state, pgx.QueryExecModeSimpleProtocol).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != "on 4MB 0 0 0" || pid(conn) != server {
		t.Errorf("the next reader begins with %s, on the connection of pid %d after that of %d", got, pid(conn), server)
	}
}
