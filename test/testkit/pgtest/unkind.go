package pgtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

// unkind are settings that people choose for their databases and roles, and that no session of Howdah's may run with.
func unkind(major int) map[string]string {
	settings := map[string]string{
		"statement_timeout": "61s", "lock_timeout": "62s", "idle_session_timeout": "63s", "idle_in_transaction_session_timeout": "64s",
		"search_path": "nowhere", "role": "pg_monitor", "default_transaction_read_only": "on",
		"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on",
		"datestyle": "German, DMY", "intervalstyle": "sql_standard", "bytea_output": "escape",
	}
	if major >= 17 {
		settings["transaction_timeout"] = "65s"
	}
	return settings
}

// Unkind is a statement that chooses such settings for a role and for a database.
func Unkind(major int, role, database string) string {
	role, database = postgres.QuoteIdentifier(role), postgres.QuoteIdentifier(database)
	statements := []string{"GRANT pg_monitor TO " + role}
	settings := unkind(major)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		for _, owner := range []string{"ROLE " + role, "DATABASE " + database} {
			statements = append(statements, fmt.Sprintf("ALTER %s SET %s = %s", owner, name, postgres.QuoteLiteral(settings[name])))
		}
	}
	return "DO $unkind$ BEGIN " + strings.Join(statements, "; ") + "; END $unkind$;"
}

// Unpinned is a query for the names of the settings of Unkind's that a session runs with; it gives one text. The session may
// have those in except.
func Unpinned(major int, except ...string) string {
	var values []string
	for name, value := range unkind(major) {
		if !slices.Contains(except, name) {
			values = append(values, fmt.Sprintf("(%s, %s)", postgres.QuoteLiteral(name), postgres.QuoteLiteral(value)))
		}
	}
	return "SELECT coalesce(pg_catalog.string_agg(n, ', ' ORDER BY n), '') FROM (VALUES " + strings.Join(values, ", ") +
		") v (n, value) WHERE pg_catalog.current_setting(n) = value"
}
