//go:build postgres

package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// running is an instance with a server.
type running struct {
	instance
	server local.Server
}

func (r running) Server() local.Server { return r.server }

func newRunning(server *pgtest.Server) running {
	return running{instance{agentapi.Status{State: agentapi.StateRunning}}, local.Server{SocketDir: server.SocketDir, Port: 5432}}
}

func scrape(handler http.Handler) string {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// await scrapes until all of these are there.
func await(t *testing.T, handler http.Handler, wanted ...string) string {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		got, missing := scrape(handler), ""
		for _, want := range wanted {
			if !strings.Contains(got, want) {
				missing = want
			}
		}
		if missing == "" {
			return got
		}
		select {
		case <-deadline:
			t.Fatalf("%s is missing from\n%s", missing, got)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestTheServerIsAskedForAllMetrics(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		handler := Handler(newRunning(pgtest.Start(t, pgtest.Options{Major: pg.Major})), "", slog.Default())
		wanted := []string{`howdah_database_size_bytes{database="postgres"}`, `howdah_sessions{state="active"} 1`, "howdah_max_sessions 100", "howdah_oldest_xid_age ",
			`howdah_checkpoints{kind="timed"}`}
		for _, q := range allQueries() {
			wanted = append(wanted, `howdah_query_failed{query="`+q.name+`"} 0`)
		}
		await(t, handler, wanted...)
	})
}

func TestAQueryThatFailsTakesNoOtherAlong(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	damaged := filepath.Join(server.DataDir, "base", server.SQL("CREATE DATABASE damaged")+server.SQL("SELECT oid FROM pg_database WHERE datname = 'damaged'"))
	if err := os.Chmod(damaged, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(damaged, 0o700) })
	await(t, Handler(newRunning(server), "", slog.Default()), "howdah_oldest_xid_age ", "howdah_max_sessions ", `howdah_query_failed{query="sessions"} 0`,
		`howdah_query_failed{query="database_size"} 1`)
}

func TestAQueryThatTakesTooLongTakesNoOtherAlong(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	slow := query{name: "slow", measures: gauges(transactionAge), sql: "SELECT 1::float8 FROM pg_sleep(60)"}
	registry := prometheus.NewRegistry()
	instance := newRunning(server)
	registry.MustRegister(&collector{source: instance, queries: newQuerier(instance.server, append([]query{slow}, queries...))})
	await(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), `howdah_query_failed{query="slow"} 1`, "howdah_max_sessions ", `howdah_query_failed{query="sessions"} 0`)
}

// What a person asks at three in the morning, on a server where it is so.
func TestTheMetricsShowWhoWaitsForWhomAndWhatKeepsWAL(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{Params: map[string]string{"wal_level": "logical", "max_prepared_transactions": "2", "max_slot_wal_keep_size": "64MB"}})
	server.SQL("CREATE ROLE clerk LOGIN SUPERUSER; CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	server.SQL("SELECT pg_create_physical_replication_slot('forgotten', true)")
	server.SQL("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'forgotten'")
	connect := func(sql string) chan error {
		conn, err := newRunning(server).server.Connect(t.Context(), "postgres")
		if err != nil {
			t.Fatal(err)
		}
		done, working := make(chan error, 1), sync.WaitGroup{}
		working.Go(func() { _, err := conn.Exec(t.Context(), sql); done <- err })
		t.Cleanup(func() {
			working.Wait() // its context has ended
			_ = conn.Close(context.WithoutCancel(t.Context()))
		})
		return done
	}
	if err := <-connect("SET ROLE clerk; BEGIN; UPDATE public.t SET n = 3"); err != nil {
		t.Fatal(err)
	}
	connect("UPDATE public.t SET n = 4") // waits for it
	got := await(t, Handler(newRunning(server), "", slog.Default()), "howdah_blocked_sessions 1", "howdah_blocking_sessions 1", "howdah_prepared_transactions 1",
		`pg_stat_activity_count{datname="postgres",state="idle in transaction",usename="postgres"} 1`,
		`pg_replication_slot_slot_is_active{slot_name="forgotten",slot_type="physical"} 0`,
		`pg_replication_slot_wal_status{slot_name="forgotten",slot_type="physical",wal_status="reserved"} 1`,
		`howdah_slot_retained_bytes{slot_name="forgotten",slot_type="physical"}`, `pg_replication_slot_safe_wal_size_bytes{slot_name="forgotten"`,
		`pg_stat_database_deadlocks{datid="`, `howdah_checksum_failures_total{datname="postgres"} 0`, "pg_replication_is_replica 0", "howdah_wal_written_bytes_total ")
	if strings.Contains(got, "howdah_slot_xmin_age{") {
		t.Errorf("a slot without xmin has an age:\n%s", got)
	}
}

func TestTheTablesWithMostDeadRowsAreShownInEachDatabase(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{Params: map[string]string{"autovacuum": "off"}})
	server.SQL("CREATE DATABASE shop")
	for _, statement := range []string{"CREATE TABLE orders AS SELECT generate_series(1, 3000) AS id", "DELETE FROM orders", "SELECT pg_stat_force_next_flush()"} {
		server.SQLIn("shop", statement)
	}
	await(t, Handler(newRunning(server), "", slog.Default()), `howdah_table_dead_rows{datname="shop",relname="orders",schemaname="public"} 3000`,
		`howdah_table_xid_age{datname="shop",relname="orders",schemaname="public"} `)
}

func TestTheStatementsThatTakeMostAreShownWithoutTheirText(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{Params: map[string]string{"shared_preload_libraries": "pg_stat_statements"}})
	server.SQL("CREATE DATABASE shop")
	server.SQL("CREATE ROLE clerk LOGIN")
	in := func(role, statement string) {
		server.Run(t, "psql", "-XAtq", "--dbname=host="+server.SocketDir+" user="+role+" dbname=shop", "--command="+statement)
	}
	in("postgres", "CREATE SCHEMA extensions")
	in("postgres", "CREATE EXTENSION pg_stat_statements SCHEMA extensions")
	in("postgres", "CREATE SCHEMA other; CREATE FUNCTION other.pg_stat_statements(bool) RETURNS int LANGUAGE sql AS 'SELECT 1/0'")
	for range 3 {
		in("clerk", "SELECT 'confidential' FROM generate_series(1, 7)")
	}
	got := await(t, Handler(newRunning(server), "", slog.Default()), `howdah_query_failed{query="statements"} 0`, `pg_stat_statements_seconds_total{datname="shop",queryid="`)
	for _, line := range strings.Split(got, "\n") {
		if strings.HasPrefix(line, "pg_stat_statements_rows_total") && (!strings.Contains(line, `user="clerk"`) || !strings.HasSuffix(line, " 21")) {
			t.Error(line)
		}
	}
	if strings.Contains(got, "confidential") {
		t.Error("a literal is in the metrics")
	}
}
