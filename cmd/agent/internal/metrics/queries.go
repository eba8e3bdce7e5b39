package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	queryFailed    = describe("query_failed", "1 if the last attempt to ask the server for these metrics failed, so that they are missing.", "query")
	sessions       = describe("sessions", "Client sessions by state.", "state")
	maxSessions    = describe("max_sessions", "max_connections.")
	databaseBytes  = describe("database_size_bytes", "Size of a database on disk.", "database")
	checkpoints    = describe("checkpoints", "Checkpoints since the server's statistics were reset, by what asked for them.", "kind")
	transactionAge = describe("oldest_xid_age", "Age of the oldest unfrozen transaction ID; writes end at about two thousand million.")
)

// query yields a label's value, empty for none, and a number.
type query struct {
	name    string
	desc    *prometheus.Desc
	labeled bool
	sql     string
	// sql17 replaces sql from version 17 on.
	sql17 string
	// every is how often it is asked; 0: at each scrape, but for those in quick succession.
	every time.Duration
}

// sizesInterval is long because the sizes of databases are a look at each of their files.
const sizesInterval = 10 * time.Minute

// queries come in the order of their importance: the time of a scrape is limited.
var queries = []query{
	{name: "oldest_xid_age", desc: transactionAge, sql: `SELECT '', max(age(datfrozenxid))::float8 FROM pg_database`},
	{name: "sessions", desc: sessions, labeled: true, sql: `SELECT coalesce(state, 'unknown'), count(*)::float8 FROM pg_stat_activity
		WHERE backend_type = 'client backend' GROUP BY 1`},
	{name: "max_sessions", desc: maxSessions, sql: `SELECT '', current_setting('max_connections')::float8`},
	{name: "checkpoints", desc: checkpoints, labeled: true,
		sql:   `SELECT kind, n::float8 FROM pg_stat_bgwriter, LATERAL (VALUES ('timed', checkpoints_timed), ('requested', checkpoints_req)) AS v (kind, n)`,
		sql17: `SELECT kind, n::float8 FROM pg_stat_checkpointer, LATERAL (VALUES ('timed', num_timed), ('requested', num_requested)) AS v (kind, n)`},
	{name: "database_size", desc: databaseBytes, labeled: true, every: sizesInterval,
		sql: `SELECT datname, pg_database_size(oid)::float8 FROM pg_database WHERE NOT datistemplate`},
}
