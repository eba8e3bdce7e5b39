package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// LogLinePrefix is the log_line_prefix that LogAssembler reads. The separator can't be in an
// application's name, so that no client can forge a field; %q ends the prefix of processes without
// a session.
const LogLinePrefix = "%m\x1f%p\x1f%b\x1f%e\x1f%x\x1f%Q\x1f%q%h\x1f%u\x1f%d\x1f%a\x1f"

const (
	logSeparator = "\x1f"
	logTime      = "2006-01-02 15:04:05.000 MST"
	// maxLogText bounds each text of a record, in bytes.
	maxLogText = 16 << 10
)

// LogRecord is one message of the server's log.
type LogRecord struct {
	Time        time.Time // zero for what was not written by the server's logger
	PID         int
	Backend     string // the kind of process: "client backend", "checkpointer", …
	SQLState    string
	Transaction string // its ID, or empty: it has none so far
	QueryID     string // as in pg_stat_statements, or empty: it isn't computed
	Client      string // its address, or [local]
	User        string
	Database    string
	Application string
	Level       string // DEBUG1 … DEBUG5, INFO, NOTICE, LOG, WARNING, ERROR, FATAL, PANIC; or empty
	Message     string
	Detail      string
	Hint        string
	Context     string // the functions and statements in which it happened
	Query       string // the statement of a function that failed
	Statement   string // the client's
}

// LogAssembler makes records of the lines that a server with FixedParameters writes to standard error.
// A record is complete only when the next one begins, so whoever feeds it flushes it when the server
// has been quiet for a moment.
type LogAssembler struct {
	// Literals: those of SQL stay in the records.
	Literals bool

	record  LogRecord
	pending bool
	section *string // where the lines that continue go; nil: nowhere
}

// Add takes one line without its newline, and returns the record that ended before it, if one did.
func (a *LogAssembler) Add(line string) (LogRecord, bool) {
	if rest, continued := strings.CutPrefix(line, "\t"); continued {
		a.extend(rest)
		return LogRecord{}, false
	}
	next, kind, text := parseLogLine(line)
	if isPrimary := kind == next.Level; isPrimary {
		done, ok := a.Flush()
		a.record, a.pending, a.section = next, true, &a.record.Message
		a.extend(text)
		return done, ok
	}
	a.section = nil
	if a.pending && next.PID == a.record.PID {
		a.section = a.sectionOf(kind)
		a.extend(text)
	}
	return LogRecord{}, false
}

// Flush returns the record that may not be complete yet.
func (a *LogAssembler) Flush() (LogRecord, bool) {
	if !a.pending {
		return LogRecord{}, false
	}
	record := a.record
	*a = LogAssembler{Literals: a.Literals}
	if a.Literals {
		return record, true
	}
	return redactRecord(record), true
}

func (a *LogAssembler) sectionOf(kind string) *string {
	switch kind {
	case "DETAIL":
		return &a.record.Detail
	case "HINT":
		return &a.record.Hint
	case "CONTEXT":
		return &a.record.Context
	case "QUERY":
		return &a.record.Query
	case "STATEMENT":
		return &a.record.Statement
	}
	return nil
}

func (a *LogAssembler) extend(text string) {
	if a.section == nil {
		return
	}
	if *a.section != "" {
		text = "\n" + text
	}
	*a.section += text[:min(len(text), maxLogText-len(*a.section))]
}

var (
	logKind = regexp.MustCompile(`^(DEBUG[1-5]|INFO|NOTICE|LOG|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT|BACKTRACE):  ?`)
	// Until it has read its configuration, the server uses its default prefix.
	defaultLogPrefix = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+) \[(\d+)\] `)
)

// parseLogLine takes one line apart. The record's Level is the kind of line unless it continues the
// record before.
func parseLogLine(line string) (record LogRecord, kind, text string) {
	record, text, ok := cutLogPrefix(line)
	if !ok {
		return LogRecord{}, "", strings.ToValidUTF8(line, "\uFFFD")
	}
	m := logKind.FindStringSubmatch(text)
	if m == nil { // somebody's name holds the separator: what follows may be anything
		return record, "", "a line of the log that can't be read"
	}
	kind, text = m[1], strings.ToValidUTF8(text[len(m[0]):], "\uFFFD")
	switch kind {
	case "DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION", "STATEMENT", "BACKTRACE":
	default:
		record.Level = kind
	}
	return record, kind, text
}

func cutLogPrefix(line string) (record LogRecord, rest string, ok bool) {
	if m := defaultLogPrefix.FindStringSubmatch(line); m != nil {
		record.Time, record.PID, ok = logStamp(m[1], m[2])
		return record, line[len(m[0]):], ok
	}
	fields := strings.SplitN(line, logSeparator, 7)
	if len(fields) < 7 {
		return LogRecord{}, "", false
	}
	record.Time, record.PID, ok = logStamp(fields[0], fields[1])
	record.Backend, record.SQLState, rest = fields[2], fields[3], fields[6]
	record.Transaction, record.QueryID = unlessZero(fields[4]), unlessZero(fields[5])
	if logKind.MatchString(rest) {
		return record, rest, ok
	}
	session := strings.SplitN(rest, logSeparator, 5)
	if len(session) < 5 {
		return LogRecord{}, "", false
	}
	record.Client, record.User, record.Database, record.Application = session[0], session[1], session[2], session[3]
	return record, session[4], ok
}

func unlessZero(number string) string {
	if number == "0" {
		return ""
	}
	return number
}

func logStamp(at, pid string) (time.Time, int, bool) {
	t, errTime := time.Parse(logTime, at)
	n, errPID := strconv.Atoi(pid)
	return t.UTC(), n, errTime == nil && errPID == nil
}
