package postgres

import (
	"slices"
	"strings"
)

// Dangerous says whether the API server refuses a parameter with this value although the agent runs with it, as clusters from before
// may have it: it damages catalogs, lets tables grow without end, hides errors, or loses commits of a cluster with synchronous
// replication. The rules of PostgresCluster say the same.
func Dangerous(name, value string, synchronous bool) bool {
	value = strings.ToLower(value)
	switch name {
	case "allow_system_table_mods", "ignore_system_indexes":
		return true
	case "autovacuum", "track_counts":
		return !slices.Contains([]string{"on", "true", "yes", "1"}, value)
	case "log_min_messages":
		return value == "fatal" || value == "panic"
	case "synchronous_commit":
		return synchronous && value != "on" && value != "remote_apply"
	}
	return false
}
