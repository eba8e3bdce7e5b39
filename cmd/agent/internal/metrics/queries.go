package metrics

import "time"

var (
	queryFailed    = describe("query_failed", "1 if the last attempt to ask the server for these metrics failed, such as sessions or replication_slots, so that they are missing.", "query")
	sessions       = describe("sessions", "Client sessions by their state (active, idle, idle in transaction, …).", "state")
	maxSessions    = describe("max_sessions", "Max_connections.")
	reserved       = describe("reserved_sessions", "Sessions of max_connections that clients can't have, as they are reserved for superusers and Howdah's Jobs.")
	databaseBytes  = describe("database_size_bytes", "Size of a database on disk.", "database")
	checkpoints    = describe("checkpoints", "Checkpoints since the statistics were reset: timed, or requested because too much WAL was written.", "kind")
	transactionAge = describe("oldest_xid_age", "Age of the oldest unfrozen transaction ID; writes end at about 2,000,000,000.")
)

// query yields rows of labels and numbers.
type query struct {
	name string
	// labels is how many columns are labels; the others are the measures.
	labels   int
	measures []measure
	// nulls: a number may be NULL, and is no metric then. Otherwise it says that the query failed.
	nulls bool
	sql   string
	// sql17 replaces sql from version 17 on.
	sql17 string
	// every is how often it is asked; 0: at each scrape, but for those in quick succession.
	every time.Duration
	// everywhere: it is asked in each database, of the busiest ones.
	everywhere bool
	// function of an extension that it calls; its schema replaces %s. It is asked in the first database that has the extension.
	extension, function string
}

// sizesInterval is long because the sizes of databases are a look at each of their files.
const sizesInterval = 10 * time.Minute

// queries come in the order of their importance: the time of a scrape is limited.
var queries = []query{
	{name: "oldest_xid_age", measures: gauges(transactionAge), sql: `SELECT max(age(datfrozenxid))::float8 FROM pg_database`},
	{name: "sessions", labels: 1, measures: gauges(sessions), sql: `SELECT coalesce(state, 'unknown'), count(*)::float8 FROM pg_stat_activity
		WHERE backend_type = 'client backend' GROUP BY 1`},
	{name: "max_sessions", measures: gauges(maxSessions, reserved), sql: `SELECT current_setting('max_connections')::float8,
		current_setting('superuser_reserved_connections')::float8 + coalesce(current_setting('reserved_connections', true), '0')::float8`},
	{name: "checkpoints", labels: 1, measures: gauges(checkpoints),
		sql:   `SELECT kind, n::float8 FROM pg_stat_bgwriter, LATERAL (VALUES ('timed', checkpoints_timed), ('requested', checkpoints_req)) AS v (kind, n)`,
		sql17: `SELECT kind, n::float8 FROM pg_stat_checkpointer, LATERAL (VALUES ('timed', num_timed), ('requested', num_requested)) AS v (kind, n)`},
	{name: "database_size", labels: 1, measures: gauges(databaseBytes), every: sizesInterval,
		sql: `SELECT datname::text, pg_database_size(oid)::float8 FROM pg_database WHERE NOT datistemplate`},
}
