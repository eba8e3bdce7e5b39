package customqueries

import (
	"slices"
	"strings"
)

// Taken says whether instances have a metric of that name already, or Prometheus adds one.
func Taken(metric string) bool {
	for _, prefix := range []string{"howdah_", "process_", "promhttp_", "go_", "scrape_"} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return metric == "up" || slices.Contains(exported, metric)
}

// exported are the metrics of an instance that have the names of postgres_exporter.
var exported = []string{
	"pg_database_wraparound_age_datfrozenxid_seconds",
	"pg_database_wraparound_age_datminmxid_seconds",
	"pg_long_running_transactions",
	"pg_long_running_transactions_oldest_timestamp_seconds",
	"pg_replication_is_replica",
	"pg_replication_lag_seconds",
	"pg_replication_slot_safe_wal_size_bytes",
	"pg_replication_slot_slot_is_active",
	"pg_replication_slot_wal_status",
	"pg_stat_activity_count",
	"pg_stat_activity_max_tx_duration",
	"pg_stat_statements_calls_total",
	"pg_stat_statements_rows_total",
	"pg_stat_statements_seconds_total",
	"pg_stat_database_blk_read_time",
	"pg_stat_database_blk_write_time",
	"pg_stat_database_blks_hit",
	"pg_stat_database_blks_read",
	"pg_stat_database_conflicts",
	"pg_stat_database_deadlocks",
	"pg_stat_database_numbackends",
	"pg_stat_database_temp_bytes",
	"pg_stat_database_temp_files",
	"pg_stat_database_tup_deleted",
	"pg_stat_database_tup_fetched",
	"pg_stat_database_tup_inserted",
	"pg_stat_database_tup_returned",
	"pg_stat_database_tup_updated",
	"pg_stat_database_xact_commit",
	"pg_stat_database_xact_rollback",
}
