package roles

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// createDatabase is the statement for a new database. A template has the encoding and the locale of its own, unless it is template0.
func createDatabase(database agentapi.Database, owner string, major int) string {
	statement := "CREATE DATABASE " + quote(database.Name) + " OWNER " + quote(owner)
	template := database.Template
	if template == "" && (database.Encoding != "" || database.Locale != "") {
		template = "template0"
	}
	if template != "" {
		statement += " TEMPLATE " + quote(template)
	}
	if database.Encoding != "" {
		statement += " ENCODING " + literal(database.Encoding)
	}
	if database.Locale != "" {
		statement += localeOf(database, major)
	}
	return statement
}

// localeOf is in the words of each provider. Before 15 there is but libc, and no word for it.
func localeOf(database agentapi.Database, major int) string {
	provider, locale := " LOCALE_PROVIDER "+database.LocaleProvider, literal(database.Locale)
	switch {
	case database.LocaleProvider == "builtin":
		return provider + " BUILTIN_LOCALE " + locale
	case database.LocaleProvider == "icu":
		return provider + " ICU_LOCALE " + locale
	case major < 15:
		provider = ""
	}
	return provider + " LOCALE " + locale
}

// keepDatabaseOptions keeps what can be changed, and says what can't.
func keepDatabaseOptions(ctx context.Context, conn *pgx.Conn, database agentapi.Database) error {
	var encoding string
	var limit int
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_encoding_to_char(encoding)::text, datconnlimit FROM pg_catalog.pg_database WHERE datname = $1",
		database.Name).Scan(&encoding, &limit); err != nil {
		return err
	}
	if database.ConnectionLimit != nil && *database.ConnectionLimit != limit {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d", quote(database.Name), *database.ConnectionLimit)); err != nil {
			return err
		}
	}
	if database.Encoding != "" && database.Encoding != encoding {
		return fmt.Errorf("%w: its encoding is %s and can't be changed: remove encoding, or move the data to another database", errRefused, encoding)
	}
	return nil
}

// literal quotes a text. Backslashes are not special in it, as standard_conforming_strings is on in our sessions.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
