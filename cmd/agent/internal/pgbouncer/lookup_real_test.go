//go:build postgres

package pgbouncer

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

// comes logs in as a client that has until the end of the limit, and says where it got to.
func (b *bed) comes(limit time.Duration) <-chan string {
	answered := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(b.t.Context(), limit)
		defer cancel()
		conn, err := pgx.Connect(ctx, b.dsn("app", "secret"))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer conn.Close(context.Background())
		var address string
		if err := conn.QueryRow(ctx, "SELECT host(inet_server_addr())").Scan(&address); err != nil {
			address = err.Error()
		}
		answered <- address
	}()
	return answered
}

// freeze has nothing of a server answer, as on a node that is lost.
func (i *instance) freeze(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(i.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.frozen(t))
}

func TestALoginWaitsForTheNextPrimaryWhereItsPasswordWasBeingLookedUpAtTheLostOne(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	b.asked(b.connect()) // now there is a session that passwords are looked up over
	a.freeze(t)
	answered := b.comes(40 * time.Second)
	time.Sleep(500 * time.Millisecond) // its password is being looked up
	_ = a.api.Close()
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	if got := <-answered; got != c.place.Address {
		t.Errorf("the client got %s", got)
	}
}

func TestLoginsWaitWhereTheServerIsKilledAndNoneIsRefusedAfterThat(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	b.asked(b.connect())
	a.Kill()
	_ = a.api.Close()
	var all []<-chan string
	for range 20 {
		all = append(all, b.comes(40*time.Second))
		time.Sleep(50 * time.Millisecond)
	}
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	for range 20 {
		all = append(all, b.comes(40*time.Second))
		time.Sleep(10 * time.Millisecond)
	}
	for n, answered := range all {
		if got := <-answered; got != c.place.Address {
			t.Errorf("client %d got %s", n, got)
		}
	}
}

func TestALoginOfAReaderIsServedByAnotherReplicaThanAFrozenOne(t *testing.T) {
	b := newBed(t)
	primary := b.instance(0, nil)
	b.roles(primary)
	first, second := b.instance(1, standby(t, primary, b.port)), b.instance(2, standby(t, primary, b.port))
	primary.desk.Serve(true)
	primary.desk.Replicas([]routing.Replica{replica(first, 0), replica(second, 0)})
	b.lead(primary, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.ReadOnly, c.MaxLagBytes = true, 100 })
	b.sends(first, second)
	first.freeze(t)
	primary.desk.Replicas([]routing.Replica{replica(second, 0)})
	b.until("readers are sent to the other replica", func() bool { return b.pooler.Serving() == second.place.Pod })
	for range 2 * lookupPool {
		if got := <-b.comes(20 * time.Second); got != second.place.Address {
			t.Errorf("a reader got %s", got)
		}
	}
}

// PgBouncer takes the age of whoever looks a password up for the time since 1970.
func TestALoginIsNotEndedByATimeoutOfTransactions(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`ALTER FUNCTION howdah_pooler.lookup RENAME TO fast`)
	a.SQL(`CREATE FUNCTION howdah_pooler.lookup(login text, OUT rolname text, OUT rolpassword text) RETURNS SETOF record LANGUAGE sql SECURITY DEFINER AS
		'SELECT f.* FROM pg_sleep(1), howdah_pooler.fast(login) f'`)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.Parameters = map[string]string{"transaction_timeout": "60", "idle_transaction_timeout": "60", "query_timeout": "60"}
	})
	b.asked(b.connect())
}

func TestAClientThatLeavesWhileItsPasswordIsLookedUpLeavesNothing(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`ALTER FUNCTION howdah_pooler.lookup RENAME TO fast`)
	a.SQL(`CREATE FUNCTION howdah_pooler.lookup(login text, OUT rolname text, OUT rolpassword text) RETURNS SETOF record LANGUAGE sql SECURITY DEFINER AS
		'SELECT f.* FROM pg_sleep(3600), howdah_pooler.fast(login) f'`)
	b.lead(a, 1)
	b.run(nil)
	for range 3 * lookupPool {
		<-b.comes(300 * time.Millisecond)
	}
	b.untilWithin(3*pauseLimit, "the server is not asked any more", func() bool {
		return a.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah_pooler lookup' AND state = 'active'") == "0"
	})
	a.SQL(`DROP FUNCTION howdah_pooler.lookup`)
	a.SQL(`ALTER FUNCTION howdah_pooler.fast RENAME TO lookup`)
	b.asked(b.connect())
}

// Names are what PostgreSQL allows: anything of up to 63 bytes.
func TestRolesAndDatabasesOfAnyNameAreReached(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	names := []string{
		`with space`, `a"quote`, `it's`, `Größe 日本`, strings.Repeat("n", 63), strings.Repeat("ö", 31), `%include x`, `a=b;c`, `back\slash`, `$1`, `.dot`, `Upper`,
	}
	for _, name := range names {
		quoted := pgx.Identifier{name}.Sanitize()
		a.SQL("CREATE ROLE " + quoted + " LOGIN PASSWORD 'secret'")
		a.SQL("CREATE DATABASE " + quoted)
	}
	b.lead(a, 1)
	b.run(nil)
	for _, name := range names {
		config, err := pgx.ParseConfig(b.dsn("app", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		config.User, config.Database = name, name
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Errorf("%q doesn't get in: %v", name, err)
			continue
		}
		var user, database string
		if err := conn.QueryRow(t.Context(), "SELECT current_user, current_database()").Scan(&user, &database); err != nil || user != name || database != name {
			t.Errorf("%q is %q at %q: %v", name, user, database, err)
		}
		_ = conn.Close(t.Context())
	}
}

// A client may send any bytes as its name, and any amount of them.
func TestNamesThatNobodyHasAreRefusedAndOthersGetIn(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	for _, name := range []string{"\xff\xfe", strings.Repeat("x", 100), "nobody", lookupDatabase, "howdah_pooler", console, "pgbouncer", "'; DROP TABLE t; --"} {
		for _, database := range []string{"shop", lookupDatabase, name} {
			config, err := pgx.ParseConfig(b.dsn("app", "secret"))
			if err != nil {
				t.Fatal(err)
			}
			config.User, config.Database = name, database
			if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
				_ = conn.Close(t.Context())
				t.Errorf("%q gets in", name)
			}
		}
	}
	if conn, err := pgx.Connect(t.Context(), b.databaseDSN(lookupDatabase)); err == nil {
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Error("a client gets to where passwords are looked up")
		}
		_ = conn.Close(t.Context())
	}
	begin := time.Now()
	b.asked(b.connect())
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("somebody else waited for %v", took)
	}
	if sessions := a.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah_pooler lookup'"); sessions > fmt.Sprint(lookupPool) {
		t.Errorf("passwords are looked up over %s sessions", sessions)
	}
}
