package postgres

import (
	"strings"
	"testing"
	"time"
)

// logLine is a line as LogLinePrefix makes it; who is user, database and application, or nothing.
func logLine(pid, state, text string, who ...string) string {
	fields := append([]string{"2026-11-21 01:02:03.456 UTC", pid, "client backend", state}, who...)
	return strings.Join(append(fields, text), "\x1f")
}

func assemble(lines ...string) []LogRecord {
	var a LogAssembler
	var records []LogRecord
	for _, line := range lines {
		if r, ok := a.Add(line); ok {
			records = append(records, r)
		}
	}
	if r, ok := a.Flush(); ok {
		records = append(records, r)
	}
	return records
}

func TestALineOfABackgroundProcessIsOneRecord(t *testing.T) {
	got := assemble(logLine("42", "00000", "LOG:  database system is ready to accept connections"))
	want := LogRecord{
		Time: time.Date(2026, 11, 21, 1, 2, 3, 456e6, time.UTC), PID: 42, Backend: "client backend", SQLState: "00000",
		Level: "LOG", Message: "database system is ready to accept connections",
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

func TestAMessageOfManyLinesIsPutTogetherAgain(t *testing.T) {
	who := []string{"app", "shop", "psql"}
	got := assemble(
		logLine("42", "53300", "FATAL:  one", who...),
		"\ttwo",
		logLine("42", "53300", "DETAIL:  three", who...),
		"\tfour",
		logLine("42", "53300", "HINT:  five", who...),
		logLine("42", "53300", "CONTEXT:  six", who...),
		"\tseven",
		logLine("42", "53300", "STATEMENT:  SELECT 'eight'", who...),
		"\tnine",
		logLine("43", "00000", "LOG:  next", who...),
	)
	if len(got) != 2 || got[0].Message != "one\ntwo" || got[0].Detail != "three\nfour" || got[0].Hint != "five" ||
		got[0].User != "app" || got[0].Database != "shop" || got[0].Application != "psql" || got[1].Message != "next" {
		t.Errorf("%+v", got)
	}
}

func TestAnotherProcessesDetailIsNotMixedIn(t *testing.T) {
	got := assemble(logLine("42", "53300", "LOG:  one"), logLine("43", "53300", "DETAIL:  other"), "\tand more")
	if len(got) != 1 || got[0].Message != "one" || got[0].Detail != "" {
		t.Errorf("%+v", got)
	}
}

func TestLinesThatAreNotTheLoggersAreRecordsWithoutALevel(t *testing.T) {
	got := assemble("\tthe end of something older", "sh: 1: not found", "2026-11-21 01:02:03.456 GMT [7] LOG:  starting")
	if len(got) != 2 || got[0].Message != "sh: 1: not found" || got[0].Level != "" || got[1].PID != 7 || got[1].Message != "starting" {
		t.Errorf("%+v", got)
	}
}

func TestAnApplicationCanNotForgeAField(t *testing.T) {
	got := assemble(logLine("42", "00000", "LOG:  real", "app", "shop", "x PANIC:  forged"))
	if len(got) != 1 || got[0].Level != "LOG" || got[0].Message != "real" || got[0].Application != "x PANIC:  forged" {
		t.Errorf("%+v", got)
	}
}

func TestAnEndlessMessageIsCut(t *testing.T) {
	lines := []string{logLine("42", "00000", "LOG:  begin")}
	for range 100 {
		lines = append(lines, "\t"+strings.Repeat("x", 1000))
	}
	if got := assemble(lines...); len(got) != 1 || len(got[0].Message) != maxLogText {
		t.Errorf("%d records", len(got))
	}
}

func TestNoLiteralOfSQLStaysInARecord(t *testing.T) {
	for name, lines := range map[string][]string{
		"log_statement":      {"00000", "LOG:  statement: INSERT INTO t VALUES ('SECRET', 4711)"},
		"duration":           {"00000", "LOG:  duration: 0.123 ms  statement: SELECT 'SECRET'"},
		"extended protocol":  {"00000", "LOG:  execute S_1: SELECT 'SECRET', $1", "DETAIL:  Parameters: $1 = 'SECRET'"},
		"unnamed, older":     {"00000", "LOG:  duration: 1 ms  bind <unnamed>: SELECT 4711", "DETAIL:  parameters: $1 = 'SECRET'"},
		"prepared":           {"00000", "LOG:  statement: EXECUTE p('SECRET')", "DETAIL:  prepare: PREPARE p AS SELECT 4711"},
		"auto_explain":       {"00000", "LOG:  duration: 0.1 ms  plan:\n\tQuery Text: SELECT 'SECRET'\n\tResult"},
		"pgaudit":            {"00000", `LOG:  AUDIT: SESSION,1,1,READ,SELECT,TABLE,public.t,"SELECT 'SECRET'",<none>`},
		"killed backend":     {"00000", "LOG:  server process (PID 9) was terminated by signal 9: Killed", "DETAIL:  Failed process was running: SELECT 'SECRET"},
		"unique violation":   {"23505", `ERROR:  duplicate key value violates unique constraint "u"`, "DETAIL:  Key (email)=(SECRET) already exists."},
		"wrong input":        {"22P02", `ERROR:  invalid input syntax for type integer: "SECRET"`},
		"wrong JSON":         {"22P02", "ERROR:  invalid input syntax for type json", "DETAIL:  Token \"SECRET\" is invalid."},
		"syntax error":       {"42601", `ERROR:  syntax error at or near "'SECRET'"`},
		"deadlock":           {"40P01", "ERROR:  deadlock detected", "DETAIL:  Process 1 waits for ShareLock on transaction 7; blocked by process 2.\n\tProcess 1: UPDATE t SET s = 'SECRET'\n\t\tWHERE i = 4711"},
		"pg_hba":             {"28P01", `FATAL:  password authentication failed for user "u"`, `DETAIL:  Connection matched pg_hba.conf line 9: "hostssl all all all ldap ldapbindpasswd=SECRET"`},
		"statement, context": {"XX000", "ERROR:  it broke", "CONTEXT:  COPY t, line 1: \"SECRET\"", "STATEMENT:  COPY t FROM 'SECRET'"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for _, text := range lines[1:] {
				all = append(all, strings.Split(logLine("42", lines[0], text, "u", "d", "a"), "\n")...)
			}
			for _, r := range assemble(all...) {
				if got := r.Message + r.Detail + r.Hint; strings.Contains(got, "SECRET") || strings.Contains(got, "4711") || r.Message == "" {
					t.Errorf("%q", got)
				}
			}
		})
	}
}

func TestWhatIsNoLiteralStaysInARecord(t *testing.T) {
	for _, c := range []struct{ state, message, detail string }{
		{"42P01", `relation "t" does not exist`, ""},
		{"F0000", "database files are incompatible with server", "The data directory was initialized by PostgreSQL version 15."},
		{"00000", "process 1 still waiting for ShareLock on transaction 7 after 1000.1 ms", "Process holding the lock: 2. Wait queue: 1."},
		{"00000", "duration: 12.5 ms", ""},
		{"53100", "could not extend file \"base/5/16384\": No space left on device", ""},
	} {
		got := redactRecord(LogRecord{SQLState: c.state, Message: c.message, Detail: c.detail})
		if got.Message != c.message || got.Detail != c.detail {
			t.Errorf("%+v", got)
		}
	}
}

func TestSQLKeepsItsShapeAndLosesItsLiterals(t *testing.T) {
	for sql, want := range map[string]string{
		`SELECT a1, "it's 5" FROM t2 WHERE x='it''s' AND y = -1.5e-3 AND z=$1`: `SELECT a1, "it's 5" FROM t2 WHERE x=? AND y = -? AND z=$1`,
		`SELECT E'a\'b' , 'a\', c`:                    `SELECT E? , ?, c`,
		`DO $x$ secret $$ 1 $x$; SELECT $$b$`:         `DO ?; SELECT ?`,
		`SELECT 1 -- secret 'x` + "\n2":               `SELECT ?  ?`,
		`SELECT /* a /* b */ c */ d, .5, 0xFF, 1_000`: `SELECT   d, ?, ?, ?`,
		`SELECT 'never closed, 5 FROM t`:              `SELECT ?`,
		`SELECT "never closed 5`:                      `SELECT ?`,
		`SELECT 'ä' || größe$1`:                       `SELECT ? || größe$1`,
		`ALTER ROLE "r" PASSWORD 'p'`:                 `ALTER ROLE "r" PASSWORD ?`,
		`SELECT xE'a\'b'`:                             `SELECT xE?b?`,
	} {
		if got := RedactSQL(sql); got != want {
			t.Errorf("%s\n got %s\nwant %s", sql, got, want)
		}
	}
}

func FuzzLogAssembler(f *testing.F) {
	f.Add(logLine("42", "53300", "FATAL:  one", "u", "d", "a") + "\n\ttwo\n" + logLine("42", "53300", "DETAIL:  three", "u", "d", "a"))
	f.Add("2026-11-21 01:02:03.456 GMT [7] LOG:  starting\nraw")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range assemble(strings.Split(text, "\n")...) {
			if len(r.Detail) > maxLogText || r.Level != "" && r.PID == 0 && !strings.Contains(text, "0") {
				t.Errorf("%+v", r)
			}
		}
	})
}

func FuzzRedactSQL(f *testing.F) {
	f.Add("SELECT a, 'secret', 4711 /* x */ FROM t -- y")
	f.Add(`SELECT E'a\'b', $q$ 7 $q$`)
	f.Fuzz(func(t *testing.T, sql string) {
		before, after := RedactSQL(sql), RedactSQL(sql+" ")
		if strings.Contains(RedactSQL("SELECT '"+strings.ReplaceAll(sql, "'", "''")+"'"), "'") {
			t.Errorf("a quoted %q shows", sql)
		}
		if len(before) > 2*len(sql) || len(after) < len(before)-1 {
			t.Errorf("%q -> %q", sql, before)
		}
	})
}
