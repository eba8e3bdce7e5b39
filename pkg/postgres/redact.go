package postgres

import (
	"encoding/csv"
	"regexp"
	"strings"
)

var (
	quotedText  = regexp.MustCompile(`"[^"]*"`)
	sqlInLog    = regexp.MustCompile(`(?s)^((?:duration: [0-9.]+ ms)?(?:  )?(?:statement|(?:execute|parse|bind)(?: [^:]*)?): )(.*)$`)
	planInLog   = regexp.MustCompile(`(?s)^(duration: [0-9.]+ ms  plan:)\n(.*)$`)
	failedQuery = "Failed process was running: "
)

// redactRecord takes what may be a literal of somebody's SQL out of a record. What the server says
// of a value depends on the class of the error, the first two characters of the SQLSTATE.
func redactRecord(r LogRecord) LogRecord {
	r.Message = redactMessage(r.SQLState, r.Message)
	r.Detail = redactDetail(r.SQLState, r.Detail)
	r.Context = redactContext(r.Context)
	r.Query, r.Statement = redactStatement(r.SQLState, r.Query), redactStatement(r.SQLState, r.Statement)
	return r
}

// redactStatement leaves out a statement that can't be parsed: where its literals begin and end is anybody's guess.
func redactStatement(state, sql string) string {
	if state == "42601" {
		return ""
	}
	return RedactSQL(sql)
}

func redactMessage(state, message string) string {
	switch {
	case strings.HasPrefix(state, "22"), state == "42601": // data exception, syntax error: they quote the input
		return quotedText.ReplaceAllString(message, `"…"`)
	case strings.HasPrefix(message, "AUDIT: "):
		return redactAudit(message)
	}
	if m := planInLog.FindStringSubmatch(message); m != nil {
		return m[1] + "\n" + redactPlan(m[2])
	}
	if m := sqlInLog.FindStringSubmatch(message); m != nil {
		return m[1] + RedactSQL(m[2])
	}
	return message
}

// redactAudit keeps the fields of pgaudit, and the statement without its literals; its parameters only where there are none.
func redactAudit(message string) string {
	const statement, parameters = 7, 8
	fields := strings.SplitN(message, ",", statement+1)
	if len(fields) <= statement {
		return message
	}
	before := strings.Join(fields[:statement], ",")
	rest, err := csv.NewReader(strings.NewReader(fields[statement])).Read()
	if err != nil || len(rest) == 0 {
		return before
	}
	out := []string{RedactSQL(rest[0])}
	for _, field := range rest[min(len(rest), parameters-statement):] {
		if field != "<none>" && field != "<not logged>" {
			field = "<redacted>"
		}
		out = append(out, field)
	}
	var text strings.Builder
	writer := csv.NewWriter(&text)
	_ = writer.Write(out) // a strings.Builder takes everything
	writer.Flush()
	return before + "," + strings.TrimSuffix(text.String(), "\n")
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
		return redactDeadlock(detail)
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

var (
	waitsFor     = regexp.MustCompile(`^Process \d+ waits for [A-Za-z]+ on [a-z ]+[][0-9a-z ()/,]*; blocked by process \d+\.$`)
	runsInThread = regexp.MustCompile(`^Process \d+: `)
)

// redactDeadlock keeps who waits for whom, and what each of them runs, without its literals. A statement may have many lines.
func redactDeadlock(detail string) string {
	var out []string
	var prefix string
	var statement []string
	end := func() {
		if prefix != "" {
			out = append(out, prefix+RedactSQL(strings.Join(statement, "\n")))
		}
		prefix, statement = "", nil
	}
	for line := range strings.SplitSeq(detail, "\n") {
		switch begin := runsInThread.FindString(line); {
		case begin != "":
			end()
			prefix, statement = begin, []string{line[len(begin):]}
		case prefix != "":
			statement = append(statement, line)
		case waitsFor.MatchString(line):
			out = append(out, line)
		}
	}
	end()
	return strings.Join(out, "\n")
}
