package postgres

import (
	"regexp"
	"strings"
)

var (
	quotedText  = regexp.MustCompile(`"[^"]*"`)
	sqlInLog    = regexp.MustCompile(`(?s)^((?:duration: [0-9.]+ ms)?(?:  )?(?:statement|(?:execute|parse|bind)(?: [^:]*)?): )(.*)$`)
	planInLog   = regexp.MustCompile(`(?s)^(duration: [0-9.]+ ms)  plan:.*$`)
	failedQuery = "Failed process was running: "
)

// redactRecord takes what may be a literal of somebody's SQL out of a record. What the server says
// of a value depends on the class of the error, the first two characters of the SQLSTATE.
func redactRecord(r LogRecord) LogRecord {
	r.Message = redactMessage(r.SQLState, r.Message)
	r.Detail = redactDetail(r.SQLState, r.Detail)
	return r
}

func redactMessage(state, message string) string {
	switch {
	case strings.HasPrefix(state, "22"), state == "42601": // data exception, syntax error: they quote the input
		return quotedText.ReplaceAllString(message, `"…"`)
	case strings.HasPrefix(message, "AUDIT: "):
		return auditWithoutStatement(message)
	}
	if m := planInLog.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	if m := sqlInLog.FindStringSubmatch(message); m != nil {
		return m[1] + RedactSQL(m[2])
	}
	return message
}

// auditWithoutStatement keeps the seven fields of pgaudit that stand before the statement.
func auditWithoutStatement(message string) string {
	fields := strings.SplitN(message, ",", 8)
	return strings.Join(fields[:min(len(fields), 7)], ",")
}

// redactDetail keeps the details of those classes of errors that don't speak of values.
func redactDetail(state, detail string) string {
	class := state[:min(len(state), 2)]
	switch class {
	case "00":
		return redactLogDetail(detail)
	case "28": // it quotes the rule of pg_hba.conf, which may hold a password
		before, _, _ := strings.Cut(detail, `: "`)
		return before
	case "40":
		return linesOfDeadlock(detail)
	case "", "01", "08", "0A", "25", "53", "55", "57", "58", "72", "F0", "XX":
		return detail
	}
	return ""
}

func redactLogDetail(detail string) string {
	if sql, found := strings.CutPrefix(detail, failedQuery); found {
		return failedQuery + RedactSQL(sql)
	}
	for _, values := range []string{"parameters:", "Parameters:", "prepare:"} {
		if strings.HasPrefix(detail, values) {
			return ""
		}
	}
	return detail
}

var waitsFor = regexp.MustCompile(`^Process \d+ waits for `)

// linesOfDeadlock keeps who waits for whom, and leaves out what each runs.
func linesOfDeadlock(detail string) string {
	var kept []string
	for line := range strings.SplitSeq(detail, "\n") {
		if waitsFor.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
