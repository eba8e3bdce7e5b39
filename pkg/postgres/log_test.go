package postgres

import (
	"strings"
	"testing"
	"time"
)

// logLine is a line as LogLinePrefix makes it; who is user, database and application, or nothing.
func logLine(pid, state, text string, who ...string) string {
	fields := []string{"2026-11-21 01:02:03.456 UTC", pid, "client backend", state, "0", "0"}
	if len(who) > 0 {
		fields = append(fields, append([]string{"10.0.0.7"}, who...)...)
	}
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
		got[0].Context != "" || got[0].Statement != "SELECT ?\nnine" || got[0].Client != "10.0.0.7" || got[0].User != "app" || got[0].Database != "shop" || got[0].Application != "psql" || got[1].Message != "next" {
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
		"unparsable":         {"42601", `ERROR:  syntax error at or near "s"`, "STATEMENT:  SELECT 'it's SECRET'"},
		"function":           {"P0001", "ERROR:  no", "QUERY:  SELECT 'SECRET'", "CONTEXT:  SQL statement \"SELECT 'SECRET'\n\t, 4711\"\n\tPL/pgSQL function f(integer) line 3 at PERFORM"},
		"parameters":         {"22012", "ERROR:  division by zero", "CONTEXT:  unnamed portal with parameters: $1 = 'SECRET', $2 = '4711'"},
		"foreign server":     {"XX000", "ERROR:  no", "CONTEXT:  remote SQL command: SELECT 'SECRET'\n\twhile locking tuple (4711,1)"},
		"COPY":               {"22P02", "ERROR:  no", `CONTEXT:  COPY t, line 47, column i: "SECRET"`},
		"plan":               {"00000", "LOG:  duration: 0.1 ms  plan:\n\tQuery Text: SELECT 'SECRET'\n\tFROM t\n\tSeq Scan on t  (cost=0.00..35.50 rows=2550 width=4)\n\t  Filter: (i = 4711)\n\t  Sort Key: 'SECRET'"},
		"plan in JSON":       {"00000", "LOG:  duration: 0.1 ms  plan:\n\t{\n\t  \"Query Text\": \"SELECT 'SECRET'\",\n\t  \"Filter\": \"(i = 4711)\"\n\t}"},
		"audit, parameters":  {"00000", `LOG:  AUDIT: SESSION,1,1,READ,SELECT,TABLE,public.t,"SELECT 'SECRET', ""a""",SECRET`},
		"statement, context": {"XX000", "ERROR:  it broke", "CONTEXT:  COPY t, line 1: \"SECRET\"", "STATEMENT:  COPY t FROM 'SECRET'"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for _, text := range lines[1:] {
				all = append(all, strings.Split(logLine("42", lines[0], text, "u", "d", "a"), "\n")...)
			}
			for _, r := range assemble(all...) {
				if got := r.Message + r.Detail + r.Hint + r.Context + r.Query + r.Statement; strings.Contains(got, "SECRET") || strings.Contains(got, "4711") || r.Message == "" {
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

// What helps to find out why something failed is there: which statement, in which function, on what, and how it was planned.
func TestARecordTellsWhatRan(t *testing.T) {
	for name, c := range map[string]struct{ in, want LogRecord }{
		"statement": {LogRecord{Statement: "UPDATE t SET a = 'x' WHERE i = 5"}, LogRecord{Statement: "UPDATE t SET a = ? WHERE i = ?"}},
		"function": {
			LogRecord{Context: "SQL statement \"UPDATE t\nSET a = 'x'\"\nPL/pgSQL function f(integer) line 3 at SQL statement\nsomething else 'x'"},
			LogRecord{Context: "SQL statement \"UPDATE t\nSET a = ?\"\nPL/pgSQL function f(integer) line 3 at SQL statement"},
		},
		"copy": {LogRecord{Context: `COPY orders, line 3, column price: "12,5"`}, LogRecord{Context: "COPY orders, line 3, column price"}},
		"lock": {LogRecord{Context: `while updating tuple (0,5) in relation "orders"`}, LogRecord{Context: `while updating tuple (0,5) in relation "orders"`}},
		"deadlock": {
			LogRecord{SQLState: "40P01", Detail: "Process 1 waits for ShareLock on transaction 7; blocked by process 2.\nProcess 1: UPDATE t\n\tSET a = 'x'\nProcess 2: DELETE FROM t WHERE i = 5"},
			LogRecord{SQLState: "40P01", Detail: "Process 1 waits for ShareLock on transaction 7; blocked by process 2.\nProcess 1: UPDATE t\n\tSET a = ?\nProcess 2: DELETE FROM t WHERE i = ?"},
		},
		"pgaudit": {
			LogRecord{Message: `AUDIT: SESSION,1,1,READ,SELECT,TABLE,public.t,"SELECT ""a"", 'x' FROM t",<none>`},
			LogRecord{Message: `AUDIT: SESSION,1,1,READ,SELECT,TABLE,public.t,"SELECT ""a"", ? FROM t",<none>`},
		},
		"auto_explain": {
			LogRecord{Message: "duration: 3.1 ms  plan:\nQuery Text: SELECT * FROM t WHERE i = 5\nIndex Scan using t_pkey on t  (cost=0.15..8.17 rows=1 width=36) (actual time=0.01..0.02 rows=1 loops=1)\n  Index Cond: (i = 5)\n  Buffers: shared hit=3"},
			LogRecord{Message: "duration: 3.1 ms  plan:\nQuery Text: SELECT * FROM t WHERE i = ?\nIndex Scan using t_pkey on t  (cost=0.15..8.17 rows=1 width=36) (actual time=0.01..0.02 rows=1 loops=1)\n  Index Cond: (i = ?)\n  Buffers: shared hit=3"},
		},
	} {
		if got := redactRecord(c.in); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestLiteralsStayWhereTheyAreWanted(t *testing.T) {
	a := LogAssembler{Literals: true}
	for range 2 {
		a.Add(logLine("42", "23505", "ERROR:  no", "u", "d", "a"))
		a.Add(logLine("42", "23505", "STATEMENT:  SELECT 'x'", "u", "d", "a"))
		if got, ok := a.Flush(); !ok || got.Statement != "SELECT 'x'" {
			t.Errorf("%+v", got)
		}
	}
}

func TestTransactionAndQueryAreInARecord(t *testing.T) {
	line := strings.Join([]string{"2026-11-21 01:02:03.456 UTC", "42", "client backend", "00000", "815", "-47", "[local]", "u", "d", "a", "LOG:  x"}, "\x1f")
	if got := assemble(line); len(got) != 1 || got[0].Transaction != "815" || got[0].QueryID != "-47" || got[0].Client != "[local]" {
		t.Errorf("%+v", got)
	}
}

func TestSQLKeepsItsShapeAndLosesItsLiterals(t *testing.T) {
	for sql, want := range map[string]string{
		`SELECT a1, "it's 5" FROM t2 WHERE x='it''s' AND y = -1.5e-3 AND z=$1`: `SELECT a1, "it's 5" FROM t2 WHERE x=? AND y = -? AND z=$1`,
		`SELECT E'a\'b' , c`:                          `SELECT E? , c`,
		`SELECT 'a\', secret, 'b'`:                    `SELECT ?`, // with standard_conforming_strings off it ends later
		`DO $x$ secret $$ 1 $x$; SELECT $$b$`:         `DO ?; SELECT ?`,
		`SELECT 1 -- secret 'x` + "\n2":               `SELECT ?  ?`,
		`SELECT /* a /* b */ c */ d, .5, 0xFF, 1_000`: `SELECT   d, ?, ?, ?`,
		`SELECT 'never closed, 5 FROM t`:              `SELECT ?`,
		`SELECT "never closed 5`:                      `SELECT ?`,
		`SELECT 'ä' || größe$1`:                       `SELECT ? || größe$1`,
		`ALTER ROLE "r" PASSWORD 'p'`:                 `ALTER ROLE "r" PASSWORD ?`,
		`SELECT xE'a\'b'`:                             `SELECT xE?`,
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
