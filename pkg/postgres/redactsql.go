package postgres

import "strings"

// RedactSQL replaces the literals of an SQL text with "?" and its comments with a space. It keeps
// parameters ($1) and quoted identifiers. What is not closed is taken for a literal to its end.
func RedactSQL(sql string) string {
	var out strings.Builder
	for i := 0; i < len(sql); {
		next := tokenEnd(sql, i)
		switch literalKind(sql, i) {
		case literalText:
			out.WriteByte('?')
		case literalComment:
			out.WriteByte(' ')
		default:
			out.WriteString(sql[i:next])
		}
		i = next
	}
	return out.String()
}

type tokenKind int

const (
	notLiteral tokenKind = iota
	literalText
	literalComment
)

// literalKind says what the token that begins at i is.
func literalKind(sql string, i int) tokenKind {
	switch c := sql[i]; {
	case c == '\'', isDigit(c), c == '.' && i+1 < len(sql) && isDigit(sql[i+1]):
		return literalText
	case c == '$' && dollarTag(sql[i:]) != "":
		return literalText
	case strings.HasPrefix(sql[i:], "--"), strings.HasPrefix(sql[i:], "/*"):
		return literalComment
	case c == '"' && !strings.Contains(sql[i+1:], `"`):
		return literalText
	}
	return notLiteral
}

// tokenEnd is where the token that begins at i ends; it is at least i+1.
func tokenEnd(sql string, i int) int {
	rest := sql[i:]
	switch c := rest[0]; {
	case c == '\'':
		return i + stringEnd(rest, isEscapeString(sql, i))
	case c == '"':
		return i + 1 + past(rest[1:], `"`)
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			return i + len(tag) + past(rest[len(tag):], tag)
		}
		return i + 1 + wordEnd(rest[1:])
	case strings.HasPrefix(rest, "--"):
		return i + past(rest, "\n")
	case strings.HasPrefix(rest, "/*"):
		return i + commentEnd(rest)
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return i + numberEnd(rest)
	case isWord(c):
		return i + wordEnd(rest)
	}
	return i + 1
}

// past is the position past the first occurrence of end, or the end of s.
func past(s, end string) int {
	if at := strings.Index(s, end); at >= 0 {
		return at + len(end)
	}
	return len(s)
}

// stringEnd ends a string that begins with a quote; a doubled quote continues, and so does an escaped one. Whether a backslash escapes a
// quote in an ordinary string depends on the session's standard_conforming_strings, so from there on everything may be a literal.
func stringEnd(s string, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '\'':
			return len(s)
		case s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == '\'':
			return i + 1
		}
	}
	return len(s)
}

// isEscapeString says whether the quote at i belongs to an E'…' string.
func isEscapeString(sql string, i int) bool {
	if i == 0 || sql[i-1] != 'e' && sql[i-1] != 'E' {
		return false
	}
	return i == 1 || !isWord(sql[i-2])
}

// dollarTag is the $tag$ that s begins with; empty if it begins with none.
func dollarTag(s string) string {
	n := 1
	for n < len(s) && isWord(s[n]) && s[n] != '$' {
		n++
	}
	if n == len(s) || s[n] != '$' || n > 1 && isDigit(s[1]) {
		return ""
	}
	return s[:n+1]
}

// commentEnd ends a /* comment */; they nest.
func commentEnd(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(s)
}

// numberEnd takes all that can be in a number: 1_000, 0xFF, 1.5e-10.
func numberEnd(s string) int {
	for i := 1; i < len(s); i++ {
		sign := (s[i] == '-' || s[i] == '+') && (s[i-1] == 'e' || s[i-1] == 'E')
		if !isWord(s[i]) && s[i] != '.' && !sign {
			return i
		}
	}
	return len(s)
}

func wordEnd(s string) int {
	for i := range len(s) {
		if !isWord(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord is true for what can stand in an identifier; all of UTF-8 beyond ASCII can.
func isWord(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
