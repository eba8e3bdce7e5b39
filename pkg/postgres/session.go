package postgres

import (
	"maps"
	"slices"
	"strings"
)

// SessionSettings are what every session of Howdah's own runs with on a server of that major, whatever is set in the
// configuration, for the database or for the role: no schema of a user's is searched, no time limit that is meant for clients ends
// a long piece of work, and results are written as our programs read them. They belong into the startup packet, which comes before
// all of these. A major of 0 is unknown; from 17 on it has to be known, for a limit that older servers refuse.
func SessionSettings(major int) map[string]string {
	settings := map[string]string{
		"search_path":                         "pg_catalog",
		"role":                                "none",
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_in_transaction_session_timeout": "0",
		"idle_session_timeout":                "0",
		"default_transaction_read_only":       "off",
		"default_transaction_isolation":       "read committed",
		"default_transaction_deferrable":      "off",
		"datestyle":                           "ISO, MDY",
		"intervalstyle":                       "postgres",
		"bytea_output":                        "hex",
	}
	if major >= 17 {
		settings["transaction_timeout"] = "0"
	}
	return settings
}

// SessionOptions writes settings as the options of a connection string or of PGOPTIONS.
func SessionOptions(settings map[string]string) string {
	words := make([]string, 0, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(withoutNUL(settings[name]))
		words = append(words, "-c "+name+"="+value)
	}
	return strings.Join(words, " ")
}
