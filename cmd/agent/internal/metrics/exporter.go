package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// measure is a value of a row.
type measure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// exporter describes a metric by the name that postgres_exporter has for it, so that its dashboards and alerts continue.
func exporter(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pg_"+name, help, labels, nil)
}

func gauges(descs ...*prometheus.Desc) (all []measure) {
	for _, desc := range descs {
		all = append(all, measure{desc, prometheus.GaugeValue})
	}
	return all
}

func counters(descs ...*prometheus.Desc) (all []measure) {
	for _, desc := range descs {
		all = append(all, measure{desc, prometheus.CounterValue})
	}
	return all
}

// Labels, as postgres_exporter has them.
const (
	byID       = "datid"
	byDatabase = "datname"
	byState    = "state"
	byUser     = "usename"
	bySchema   = "schemaname"
	byTable    = "relname"
	bySlot     = "slot_name"
	bySlotType = "slot_type"
)

// How many rows a query gives at most: each is a series, and databases, roles and slots may be created by tenants.
const (
	databaseRows = "100"
	sessionRows  = "200"
	slotRows     = "50"
	ioRows       = "100"
	tableRows    = "5" // of each database
	topRows      = "50"
)

var (
	checksumFailures = describe("checksum_failures_total", "Pages of a database whose checksum was wrong when PostgreSQL read them; those of shared catalogs have no name.", byDatabase)
	slotRetained     = describe("slot_retained_bytes", "WAL that a replication slot keeps.", bySlot, bySlotType)
	slotXminAge      = describe("slot_xmin_age", "Age of the oldest transaction whose rows a replication slot keeps from vacuum.", bySlot, bySlotType)
	blocked          = describe("blocked_sessions", "Sessions that wait for a lock of another session.")
	blocking         = describe("blocking_sessions", "Sessions whose locks others wait for.")
	prepared         = describe("prepared_transactions", "Transactions that are prepared for a two-phase commit.")
	preparedAge      = describe("oldest_prepared_transaction_seconds", "For how long the oldest prepared transaction has been prepared; 0: there is none.")
	vacuumWorkers    = describe("autovacuum_workers", "Active autovacuum workers.")
	vacuumMost       = describe("autovacuum_max_workers", "Autovacuum_max_workers: when all are active for hours, autovacuum does not keep up.")
	subscriptionRuns = describe("subscription_running", "1 while an enabled subscription brings changes, else 0 (on a primary).", byDatabase, "subname")
	subscriptionErrs = describe("subscription_errors_total", "Changes that a subscription could not apply, and copies of tables that failed.", byDatabase, "subname")
	ioOperations     = describe("io_operations_total", "Reads, writes, extends and fsyncs of pg_stat_io (from 17 on).", "backend_type", "object", "context", "operation")
	ioTime           = describe("io_seconds_total", "Time that these operations took, with track_io_timing.", "backend_type", "object", "context", "operation")
	tableDead        = describe("table_dead_rows", "Dead rows of the five tables of a database that have most, if they are a thousand or more; of 20 databases, every ten minutes.", byDatabase, bySchema, byTable)
	tableXIDAge      = describe("table_xid_age", "Age of the oldest unfrozen transaction ID of these tables.", byDatabase, bySchema, byTable)
	walRecords       = describe("wal_records_total", "Records of WAL that were written.")
	walPages         = describe("wal_full_page_images_total", "Whole pages that were written to WAL.")
	walWritten       = describe("wal_written_bytes_total", "Bytes of WAL that were written.")
)

// exporterQueries come after those that alerts are about.
var exporterQueries = []query{
	{name: "wraparound", labels: 1, measures: gauges(
		exporter("database_wraparound_age_datfrozenxid_seconds", "Age of the oldest unfrozen transaction ID of a database, in transactions.", byDatabase),
		exporter("database_wraparound_age_datminmxid_seconds", "Age of the oldest multixact ID of a database, in multixacts.", byDatabase),
	), sql: `SELECT datname::text, age(datfrozenxid)::float8, mxid_age(datminmxid)::float8 FROM pg_database WHERE datallowconn ORDER BY 2 DESC LIMIT ` + databaseRows},
	{name: "checksum_failures", labels: 1, measures: counters(checksumFailures),
		sql: `SELECT coalesce(datname::text, ''), checksum_failures::float8 FROM pg_stat_database WHERE checksum_failures IS NOT NULL ORDER BY 2 DESC LIMIT ` + databaseRows},
	{name: "replication_lag", measures: gauges(
		exporter("replication_lag_seconds", "How old the last transaction is that a replica has replayed, if it has not replayed all that it received; else 0."),
		exporter("replication_is_replica", "1 on a replica."),
	), sql: `SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
		ELSE greatest(0, coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp()), 0)) END::float8, pg_is_in_recovery()::int::float8`},
	{name: "replication_slots", nulls: true, labels: 2, measures: gauges(
		exporter("replication_slot_slot_is_active", "1 while somebody reads a replication slot.", bySlot, bySlotType),
		exporter("replication_slot_safe_wal_size_bytes", "WAL that may still be written before a replication slot is invalidated.", bySlot, bySlotType),
		slotRetained, slotXminAge,
	), sql: `SELECT slot_name::text, slot_type, active::int::float8, safe_wal_size::float8,
		pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::float8,
		greatest(age(xmin), age(catalog_xmin))::float8 FROM pg_replication_slots ORDER BY 5 DESC NULLS LAST LIMIT ` + slotRows},
	{name: "replication_slot_status", labels: 3, measures: gauges(
		exporter("replication_slot_wal_status", "Always 1; says whether the WAL that a replication slot needs is still there.", bySlot, bySlotType, "wal_status"),
	), sql: `SELECT slot_name::text, slot_type, coalesce(wal_status, 'unknown'), 1::float8 FROM pg_replication_slots ORDER BY 1 LIMIT ` + slotRows},
	{name: "activity", labels: 3, measures: gauges(
		exporter("stat_activity_count", "Client sessions by database, state and role.", byDatabase, byState, byUser),
		exporter("stat_activity_max_tx_duration", "Longest transaction of these sessions, in seconds.", byDatabase, byState, byUser),
	), sql: `SELECT coalesce(datname::text, ''), coalesce(state, 'unknown'), coalesce(usename::text, ''), count(*)::float8,
		coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity WHERE backend_type = 'client backend'
		GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT ` + sessionRows},
	{name: "long_transactions", measures: gauges(
		exporter("long_running_transactions", "Transactions of clients that have run for more than a minute."),
		exporter("long_running_transactions_oldest_timestamp_seconds", "For how long the oldest of these transactions has run, in seconds."),
	), sql: `SELECT count(*)::float8, coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND xact_start < clock_timestamp() - interval '1 minute'`},
	{name: "blocked_sessions", measures: gauges(blocked, blocking),
		sql: `SELECT count(DISTINCT pid)::float8, count(DISTINCT blocker)::float8 FROM pg_stat_activity, unnest(pg_blocking_pids(pid)) AS blocker WHERE wait_event_type = 'Lock'`},
	{name: "prepared_transactions", measures: gauges(prepared, preparedAge),
		sql: `SELECT count(*)::float8, coalesce(max(extract(epoch FROM clock_timestamp() - prepared)), 0)::float8 FROM pg_prepared_xacts`},
	{name: "subscriptions", labels: 2, measures: append(gauges(subscriptionRuns), counters(subscriptionErrs)...),
		sql: `SELECT d.datname::text, s.subname::text, (w.pid IS NOT NULL)::int::float8, (e.apply_error_count + e.sync_error_count)::float8
			FROM pg_subscription AS s JOIN pg_database AS d ON d.oid = s.subdbid JOIN pg_stat_subscription_stats AS e ON e.subid = s.oid
			LEFT JOIN pg_stat_subscription AS w ON w.subid = s.oid AND w.relid IS NULL AND w.pid IS NOT NULL
			WHERE s.subenabled AND NOT pg_is_in_recovery() ORDER BY 4 DESC LIMIT ` + slotRows},
	{name: "autovacuum_workers", measures: gauges(vacuumWorkers, vacuumMost),
		sql: `SELECT count(*)::float8, current_setting('autovacuum_max_workers')::float8 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'`},
	{name: "wal", measures: counters(walRecords, walPages, walWritten), sql: `SELECT wal_records::float8, wal_fpi::float8, wal_bytes::float8 FROM pg_stat_wal`},
	{name: "io", labels: 4, nulls: true, measures: counters(ioOperations, ioTime), sql: `SELECT '', '', '', '', 0::float8, 0::float8 WHERE false`,
		sql17: `SELECT backend_type, object, context, operation, n::float8, ms / 1000 FROM pg_stat_io, LATERAL (VALUES ('read', reads, read_time),
			('write', writes, write_time), ('extend', extends, extend_time), ('fsync', fsyncs, fsync_time)) AS v (operation, n, ms)
			WHERE n > 0 ORDER BY n DESC LIMIT ` + ioRows},
	{name: "databases", labels: 2, measures: append(gauges(
		exporter("stat_database_numbackends", "Sessions in a database.", byID, byDatabase),
	), counters(
		exporter("stat_database_xact_commit", "Transactions that were committed.", byID, byDatabase),
		exporter("stat_database_xact_rollback", "Transactions that were rolled back.", byID, byDatabase),
		exporter("stat_database_blks_read", "Pages that were read from files.", byID, byDatabase),
		exporter("stat_database_blks_hit", "Pages that were found in shared buffers.", byID, byDatabase),
		exporter("stat_database_tup_returned", "Rows that were looked at.", byID, byDatabase),
		exporter("stat_database_tup_fetched", "Rows that were found by an index.", byID, byDatabase),
		exporter("stat_database_tup_inserted", "Rows that were inserted.", byID, byDatabase),
		exporter("stat_database_tup_updated", "Rows that were updated.", byID, byDatabase),
		exporter("stat_database_tup_deleted", "Rows that were deleted.", byID, byDatabase),
		exporter("stat_database_conflicts", "Queries of a replica that were cancelled, because replay could not wait for them.", byID, byDatabase),
		exporter("stat_database_temp_files", "Temporary files that queries wrote.", byID, byDatabase),
		exporter("stat_database_temp_bytes", "Bytes that queries wrote to temporary files.", byID, byDatabase),
		exporter("stat_database_deadlocks", "Deadlocks.", byID, byDatabase),
		exporter("stat_database_blk_read_time", "Time that was spent on reading pages, in milliseconds.", byID, byDatabase),
		exporter("stat_database_blk_write_time", "Time that was spent on writing pages, in milliseconds.", byID, byDatabase),
	)...), sql: `SELECT datid::text, datname::text, numbackends::float8, xact_commit::float8, xact_rollback::float8, blks_read::float8, blks_hit::float8,
		tup_returned::float8, tup_fetched::float8, tup_inserted::float8, tup_updated::float8, tup_deleted::float8, conflicts::float8, temp_files::float8,
		temp_bytes::float8, deadlocks::float8, blk_read_time, blk_write_time FROM pg_stat_database WHERE datname IS NOT NULL ORDER BY xact_commit DESC LIMIT ` + databaseRows},
}

// statementsInterval is how often the statements that take most are looked for.
const statementsInterval = 2 * time.Minute

// perDatabase are asked in each database, seldom.
var perDatabase = []query{
	{name: "vacuum_debt", labels: 3, measures: gauges(tableDead, tableXIDAge), every: sizesInterval, everywhere: true,
		sql: `SELECT current_database()::text, s.schemaname::text, s.relname::text, s.n_dead_tup::float8, age(c.relfrozenxid)::float8
			FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid WHERE c.relkind IN ('r', 'm') AND s.n_dead_tup >= 1000 ORDER BY 4 DESC LIMIT ` + tableRows},
	// Without their text, in which there may be literals, and which would have to be read from a file.
	{name: "statements", labels: 3, every: statementsInterval, extension: "pg_stat_statements", function: "pg_stat_statements", measures: counters(
		exporter("stat_statements_calls_total", "How often a statement was run: of the 50 that took most time, every two minutes. The superuser's are left out.", "user", byDatabase, "queryid"),
		exporter("stat_statements_seconds_total", "Seconds that these statements took.", "user", byDatabase, "queryid"),
		exporter("stat_statements_rows_total", "Rows that these statements returned or changed.", "user", byDatabase, "queryid"),
	), sql: `SELECT coalesce(pg_get_userbyid(s.userid)::text, ''), d.datname::text, s.queryid::text, sum(s.calls)::float8, (sum(s.total_exec_time) / 1000)::float8, sum(s.rows)::float8
			FROM %s.pg_stat_statements(false) AS s JOIN pg_database AS d ON d.oid = s.dbid WHERE s.queryid IS NOT NULL AND s.userid <> 10
			GROUP BY 1, 2, 3 ORDER BY 5 DESC LIMIT ` + topRows},
}

func allQueries() []query { return slices.Concat(queries, exporterQueries, perDatabase) }
