package customqueries

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"howdah.dev/howdah/test/testkit/heaptest"
)

// As CloudNativePG's documentation has it.
const replication = `
pg_replication_status:
  query: "SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0 ELSE 1 END AS lag, current_database() AS datname;"
  primary: true
  cache_seconds: 60
  runonserver: ">= 15.0.0 <19"
  target_databases: ["app", "*"]
  metrics:
  - datname:
      usage: "LABEL"
      description: "Name of the database"
  - lag:
      usage: "GAUGE"
      description: "Replication lag behind primary in seconds"
  - noise:
      usage: "DISCARD"
`

func TestAQueryOfPostgresExporterIsRead(t *testing.T) {
	c := &Collection{}
	c.Add("ConfigMap q", replication)
	want := []Query{{
		Name: "pg_replication_status", SQL: "SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0 ELSE 1 END AS lag, current_database() AS datname", Primary: true, EverySeconds: 60,
		Databases: []string{"app", "*"}, Versions: Versions{{">=", 15}, {"<", 19}},
		Columns: []Column{
			{Column: "datname", Name: "datname", Kind: Label, Help: "Name of the database"},
			{Column: "lag", Name: "pg_replication_status_lag", Kind: Gauge, Help: "Replication lag behind primary in seconds"},
		},
	}}
	if !reflect.DeepEqual(c.Queries, want) || len(c.Problems) > 0 {
		t.Errorf("got %+v, %v", c.Queries, c.Problems)
	}
}

func TestAWrongQueryIsNamedAndTakesNoOtherAlong(t *testing.T) {
	gauge := func(column string) string { return "[{" + column + ": {usage: GAUGE}}]" }
	many := ""
	for i := range MaxQueries + 1 {
		many += fmt.Sprintf("q%02d: {query: SELECT 1 AS a, metrics: %s}\n", i, gauge("a"))
	}
	for _, c := range []struct{ content, says string }{
		{"x: [", "it has to be queries in the format of postgres_exporter"},
		{"x: {query: SELECT 1, colour: red}", "query x: yaml: unmarshal errors: line 1: field colour not found"},
		{"x: 7", "query x: yaml"},
		{"- x", "it has to be queries in the format of postgres_exporter"},
		{"9x: {query: SELECT 1, metrics: " + gauge("a") + "}", "query 9x: its name must have up to 100 letters"},
		{"x: {metrics: " + gauge("a") + "}", "query x: it has no SQL"},
		{"x: {query: SELECT 1}", "query x: none of its metrics is a GAUGE or a COUNTER"},
		{"x: {query: SELECT 1, metrics: [{a: {usage: HISTOGRAM}}]}", `query x: column a: usage "HISTOGRAM" is not supported: write LABEL, GAUGE, COUNTER or DISCARD`},
		{"x: {query: SELECT 1, metrics: " + gauge("a-b") + "}", "column a-b: its name must have letters"},
		{"x: {query: SELECT 1, metrics: [{__a: {usage: LABEL}}, {b: {usage: GAUGE}}]}", "column __a: labels that begin with __"},
		{"x: {query: SELECT 1, metrics: [{a: {usage: GAUGE}}, {b: {usage: GAUGE, name: a}}]}", "column b: another column has the name x_a"},
		{"x: {query: SELECT 1, runonserver: newest, metrics: " + gauge("a") + "}", "runonserver must be comparisons"},
		{"x: {query: SELECT 1, target_databases: ['['], metrics: " + gauge("a") + "}", "is neither a database nor a pattern"},
		{"pg_replication: {query: SELECT 1, metrics: " + gauge("is_replica") + "}", "instances already serve a metric pg_replication_is_replica"},
		{"howdah_x: {query: SELECT 1, metrics: " + gauge("a") + "}", "instances already serve a metric howdah_x_a"},
		{"x: {query: SELECT 1, metrics: " + gauge("a_b") + "}\nx_a: {query: SELECT 1, metrics: " + gauge("b") + "}", "query x already has the metric x_a_b"},
		{"x: {query: SELECT 1, name: fine, metrics: " + gauge("a") + "}", "another query has the name fine"},
		{many, "a cluster may have 50 queries"},
		{"x: {query: " + strings.Repeat("x", MaxBytes) + "}", "larger than 256 KiB"},
	} {
		all := &Collection{}
		all.Add("key a of ConfigMap q", "fine: {query: SELECT 1 AS n, metrics: "+gauge("n")+"}")
		all.Add("key b of ConfigMap q", c.content)
		if len(all.Problems) == 0 || !strings.HasPrefix(all.Problems[0], "key b of ConfigMap q: ") || !strings.Contains(all.Problems[0], c.says) {
			t.Errorf("%q: %q", c.says, all.Problems)
		}
		if len(all.Queries) == 0 || all.Queries[0].Name != "fine" {
			t.Errorf("%q: the other query is gone", c.says)
		}
	}
}

func TestComparisonsOfVersionsHold(t *testing.T) {
	for text, want := range map[string]string{"": "15 17 18", ">=17.0.0": "17 18", "<17": "15", "> 15 != 18": "17", "==15.0.0": "15", "=18": "18", "15": "15", "<=17 >15": "17"} {
		versions, err := parseVersions(text)
		var has []string
		for _, major := range []int{15, 17, 18} {
			if versions.Has(major) {
				has = append(has, fmt.Sprint(major))
			}
		}
		if got := strings.Join(has, " "); err != nil || got != want {
			t.Errorf("%q: %s instead of %s, %v", text, got, want, err)
		}
	}
}

func FuzzWhatIsAcceptedHasNamesOfPrometheus(f *testing.F) {
	f.Add(replication)
	f.Add("x: {query: SELECT 1, metrics: [{n: {usage: GAUGE}}]}")
	f.Fuzz(func(t *testing.T, content string) {
		c := &Collection{}
		heaptest.AtMost(t, 8<<20, 1<<10, len(content), func() { c.Add("s", content) })
		for _, query := range c.Queries {
			for _, column := range query.Columns {
				if !identifier.MatchString(column.Name) || column.Kind != Label && Taken(column.Name) {
					t.Errorf("%+v", query)
				}
			}
		}
	})
}
