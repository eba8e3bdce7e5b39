//go:build postgres

package metrics

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/customqueries"
	"howdah.dev/howdah/test/testkit/pgtest"
)

const queriesOfAPerson = `
orders:
  query: "SELECT status, count(*) AS n, bool_or(late) AS late, max(placed) AS newest, NULL::int AS nothing FROM public.orders GROUP BY 1;"
  target_databases: [shop]
  metrics:
  - status: {usage: LABEL}
  - n: {usage: GAUGE, description: Orders by status.}
  - late: {usage: GAUGE}
  - newest: {usage: COUNTER}
  - nothing: {usage: GAUGE}
size:
  query: SELECT current_database() AS datname, 1 AS n
  target_databases: ["sh*", "postgres"]
  metrics: [{datname: {usage: LABEL}}, {n: {usage: GAUGE}}]
who:
  query: SELECT session_user AS role, count(*) FILTER (WHERE query = '<insufficient privilege>') AS hidden FROM pg_stat_activity
  metrics: [{role: {usage: LABEL}}, {hidden: {usage: GAUGE}}]
later: {query: SELECT 1 AS n, runonserver: ">=99", metrics: [{n: {usage: GAUGE}}]}
unwanted: {query: SELECT 1 AS n, predicate_query: SELECT false, metrics: [{n: {usage: GAUGE}}]}
secret: {query: SELECT count(*) AS n FROM public.secrets, metrics: [{n: {usage: GAUGE}}]}
superuser: {query: "SELECT set_config('role', 'postgres', false)::text = '' AS n", metrics: [{n: {usage: GAUGE}}]}
writes: {query: "WITH w AS (INSERT INTO public.orders VALUES ('x') RETURNING 1) SELECT count(*) AS n FROM w", target_databases: [shop], metrics: [{n: {usage: GAUGE}}]}
two: {query: "SELECT 1 AS n) AS q; DROP TABLE public.orders; SELECT (1", metrics: [{n: {usage: GAUGE}}]}
large_object: {query: SELECT lo_create(0)::int8 AS n, metrics: [{n: {usage: GAUGE}}]}
text: {query: "SELECT 'confidential' AS n", metrics: [{n: {usage: GAUGE}}]}
twice: {query: "SELECT 1 AS n FROM generate_series(1, 2)", metrics: [{n: {usage: GAUGE}}]}
rows: {query: "SELECT i, i AS n FROM generate_series(1, 101) AS i", metrics: [{i: {usage: LABEL}}, {n: {usage: GAUGE}}]}
column: {query: SELECT 1 AS m, metrics: [{n: {usage: GAUGE}}]}
slow: {query: SELECT 1 AS n FROM pg_sleep(60), metrics: [{n: {usage: GAUGE}}]}
`

func TestAPersonsQueriesAreMetricsAndCanNeitherWriteNorReadMore(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	instance := newRunning(server)
	instance.status.Role = "primary"
	if err := roles.Ensure(t.Context(), instance.server, roles.Wanted{Major: server.Major, Database: "shop", Owner: "app", Password: "x"}); err != nil {
		t.Fatal(err)
	}
	server.SQL("CREATE TABLE secrets (t text)")
	for _, statement := range []string{
		"CREATE TABLE orders (status text, late bool DEFAULT false, placed timestamptz DEFAULT to_timestamp(1700000000)); GRANT ALL ON orders TO PUBLIC",
		"INSERT INTO orders VALUES ('open', true), ('open', false), ('sent', false)",
	} {
		server.SQLIn("shop", statement)
	}
	collection := &customqueries.Collection{}
	if collection.Add("test", queriesOfAPerson); len(collection.Problems) > 0 {
		t.Fatal(collection.Problems)
	}
	for i := range collection.Queries {
		if len(collection.Queries[i].Databases) == 0 {
			collection.Queries[i].Databases = []string{"postgres"}
		}
	}
	content, err := json.Marshal(collection.Queries)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	c := newCustom(instance.server, file, slog.New(slog.NewTextHandler(log, nil)))
	c.each = time.Second
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{source: instance, queries: newQuerier(instance.server, nil), custom: c})
	got := await(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		`orders_n{status="open"} 2`, `orders_late{status="open"} 1`, `orders_late{status="sent"} 0`, `orders_newest{status="open"} 1.7e+09`, "# TYPE orders_newest counter",
		`size_n{datname="postgres"} 1`, `size_n{datname="shop"} 1`, `who_hidden{role="howdah_monitor"} 0`,
		`howdah_custom_query_failed{query="orders"} 0`, `howdah_custom_query_seconds{query="orders"} `, `howdah_custom_query_failed{query="unwanted"} 0`)
	for _, name := range []string{"secret", "superuser", "writes", "two", "text", "twice", "rows", "column", "slow"} {
		if !strings.Contains(got, `howdah_custom_query_failed{query="`+name+`"} 1`) || strings.Contains(got, "\n"+name+"_n") {
			t.Errorf("query %s doesn't fail", name)
		}
	}
	for _, absent := range []string{"later", "orders_nothing", "\nunwanted_n"} {
		if strings.Contains(got, absent) {
			t.Errorf("%q is there", absent)
		}
	}
	for _, says := range []string{"permission denied for table secrets", "more than 100 rows", "two of its rows have the same labels", "it took longer than 1s", "it returns no column n", "SQLSTATE 22P02"} {
		if !strings.Contains(log.String(), says) {
			t.Errorf("the log doesn't say %q:\n%s", says, log)
		}
	}
	if strings.Contains(log.String(), "confidential") || server.SQL("SELECT count(*) FROM pg_largeobject_metadata") != "0" {
		t.Error("a value is in the log, or a query has written")
	}
}

func TestQueriesRunAgainAsTheirFileChanges(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	server := pgtest.Start(t, pgtest.Options{})
	server.SQL("CREATE ROLE howdah_monitor LOGIN")
	file := filepath.Join(t.TempDir(), "queries.json")
	c := newCustom(local.Server{SocketDir: server.SocketDir, Port: 5432}, file, slog.Default())
	c.every = time.Millisecond
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{source: newRunning(server), queries: newQuerier(newRunning(server).server, nil), custom: c})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	write := func(value string) {
		content := `[{"name":"x","sql":"SELECT ` + value + ` AS n","databases":["postgres"],"everySeconds":3600,"columns":[{"column":"n","name":"x_n","kind":"Gauge"}]}]`
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scrape(handler) // there is no file yet
	for _, value := range []string{"1", "2"} {
		write(value)
		await(t, handler, "\nx_n "+value)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for strings.Contains(scrape(handler), "x_n") {
		select {
		case <-deadline:
			t.Fatal("the metrics stay")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestNoQueryOfAPersonHasTheNameOfAMetricThatThereIs(t *testing.T) {
	for _, q := range allQueries() {
		for _, m := range q.measures {
			if full := strings.Split(m.desc.String(), `"`)[1]; !customqueries.Taken(full) {
				t.Errorf("%s is missing from package customqueries", full)
			}
		}
	}
}
