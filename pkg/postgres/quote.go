package postgres

import "strings"

// QuoteIdentifier writes a name so that it can be used in SQL. PostgreSQL has no zero byte in names;
// one is left out.
func QuoteIdentifier(name string) string {
	return `"` + strings.ReplaceAll(withoutNUL(name), `"`, `""`) + `"`
}

// QuoteLiteral writes a text so that it can be used in SQL as a value, whatever
// standard_conforming_strings says. Prefer parameters where the statement takes them.
func QuoteLiteral(text string) string {
	quoted := "'" + strings.ReplaceAll(withoutNUL(text), `'`, `''`) + "'"
	if strings.Contains(quoted, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// QuoteConnInfo writes a value of a connection string of keywords and values.
func QuoteConnInfo(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(withoutNUL(value)) + "'"
}

func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "") }
