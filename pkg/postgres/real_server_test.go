//go:build postgres

package postgres_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func params(list []postgres.Parameter) map[string]string {
	all := map[string]string{}
	for _, p := range list {
		all[p.Name] = p.Value
	}
	return all
}

func TestAServerAcceptsEveryParameterThatWeSetAndReadsItsValueBack(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		odd := postgres.Parameter{Name: "howdah_test.odd", Value: `it's a \ "test" with # and $1 = 'x'`}
		list := postgres.MergeParameters(postgres.DefaultParameters(pg.Major, 512<<20, 2), postgres.ReservedConnections(pg.Major, ""),
			postgres.VolumeParameters(10<<30, postgres.DefaultSegSize), postgres.FixedParameters(pg.Major), []postgres.Parameter{
				odd, {Name: "ssl", Value: "off"}, {Name: "archive_mode", Value: "off"},
			})
		s := pgtest.Init(t, pgtest.Options{Major: pg.Major})
		conf, err := postgres.RenderConf(list)
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, filepath.Join(s.DataDir, "postgresql.conf"), conf)
		s.Start()
		for name, want := range params(list) {
			got := s.SQL("SELECT setting FROM pg_file_settings WHERE applied AND error IS NULL AND name = " + postgres.QuoteLiteral(name))
			if got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if got := s.SQL("SHOW howdah_test.odd"); got != odd.Value {
			t.Errorf("got %q, want %q", got, odd.Value)
		}
	})
}

// A configuration that says nothing of it would be PostgreSQL's own 80 MB, with which such a server does not start.
func TestAServerWithLargeSegmentsStartsWithWhatWeSet(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Init(t, pgtest.Options{Major: pg.Major, InitArgs: []string{"--wal-segsize=64"}})
		conf, err := postgres.RenderConf(postgres.MergeParameters(
			postgres.ParameterList(map[string]string{"max_wal_size": "1GB", "min_wal_size": "80MB"}), postgres.VolumeParameters(2<<30, 64<<20)))
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, filepath.Join(s.DataDir, "postgresql.conf"), conf)
		s.Start()
		if got := s.SQL("SELECT current_setting('wal_segment_size') || ' ' || current_setting('min_wal_size') || ' ' || current_setting('max_wal_size')"); got != "64MB 128MB 409MB" {
			t.Errorf("they are %s", got)
		}
	})
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestARoleLogsInWithThePasswordOfAVerifierMadeHere(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, HBA: "local all postgres trust\nlocal all all scram-sha-256\n"})
		for i, password := range []string{"pencil", `it's "a" \ test`, "Grüße, Ωmega", "tab\there"} {
			verifier, err := postgres.ScramVerifier(password, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			role := fmt.Sprintf(`role %d "x`, i)
			s.SQL("CREATE ROLE " + postgres.QuoteIdentifier(role) + " LOGIN PASSWORD " + postgres.QuoteLiteral(verifier))
			stored := s.SQL("SELECT rolpassword FROM pg_authid WHERE rolname = " + postgres.QuoteLiteral(role))
			if stored != verifier || !postgres.ScramMatches(stored, password) {
				t.Errorf("stored %s, made %s", stored, verifier)
			}
			if out, err := login(t, s, role, password).CombinedOutput(); err != nil {
				t.Errorf("%q: %v: %s", password, err, out)
			}
			if err := login(t, s, role, password+"x").Run(); err == nil {
				t.Errorf("another password than %q logs in", password)
			}
			// And the server's own verifier of it is one that we recognise.
			s.SQL("ALTER ROLE " + postgres.QuoteIdentifier(role) + " PASSWORD " + postgres.QuoteLiteral(password))
			if stored := s.SQL("SELECT rolpassword FROM pg_authid WHERE rolname = " + postgres.QuoteLiteral(role)); !postgres.ScramMatches(stored, password) {
				t.Errorf("%q is not recognised in %s", password, stored)
			}
		}
	})
}

func login(t *testing.T, s *pgtest.Server, role, password string) *exec.Cmd {
	dsn := "host=" + s.SocketDir + " dbname=postgres user=" + postgres.QuoteConnInfo(role)
	cmd := s.Command(t.Context(), t, "psql", "--no-psqlrc", "--dbname="+dsn, "--command=SELECT 1")
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	return cmd
}

func TestAServersLogIsReadIntoRecordsWithoutASecret(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		options := params(postgres.FixedParameters(pg.Major))
		delete(options, "ssl")
		delete(options, "archive_mode")
		options["fsync"], options["log_statement"], options["log_min_duration_statement"] = "off", "all", "0"
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: options})
		s.SQL("CREATE TABLE t (i int PRIMARY KEY, s text)")
		for _, statement := range []string{
			"INSERT INTO t VALUES (4711, 'SECRET'); INSERT INTO t VALUES (4711, 'SECRET')",
			"SELECT 'SECRET'::int", "SELECT\n 1,\n 'SECRET' FROM nowhere", "SELEC 'SECRET'", "SELECT 'SECRET", "ALTER ROLE nobody_here PASSWORD 'SECRET'",
			"DO $$ BEGIN PERFORM 'SECRET'::date; END $$", "SELECT 1/0 -- SECRET",
			"DO $$ BEGIN INSERT INTO t VALUES (4711, 'SECRET'); UPDATE t SET i = NULL WHERE s = 'SECRET'; END $$",
		} {
			cmd := s.Command(t.Context(), t, "psql", "--no-psqlrc", "--dbname="+s.DSN()+" application_name=tester", "--command="+statement)
			if err := cmd.Run(); err == nil {
				t.Errorf("%q does not fail", statement)
			}
		}
		s.Stop()
		records := readLog(s.Log())
		seen := map[string]postgres.LogRecord{}
		for _, r := range records {
			if text := r.Message + r.Detail + r.Hint + r.Context + r.Query + r.Statement; strings.Contains(text, "SECRET") || strings.Contains(text, "4711") {
				t.Errorf("%+v", r)
			}
			if r.Level == "" || r.Time.IsZero() || r.PID == 0 {
				t.Errorf("not understood: %+v", r)
			}
			if r.Level == "ERROR" {
				seen[r.SQLState] = r
			}
		}
		if r := seen["23505"]; r.User != "postgres" || r.Database != "postgres" || r.Application != "tester" || r.Backend != "client backend" ||
			r.Client != "[local]" || r.Transaction == "" || r.Statement != "INSERT INTO t VALUES (?, ?); INSERT INTO t VALUES (?, ?)" ||
			r.Message != `duplicate key value violates unique constraint "t_pkey"` {
			t.Errorf("%+v", r)
		}
		if r := seen["23502"]; r.Context != "SQL statement \"UPDATE t SET i = NULL WHERE s = ?\"\nPL/pgSQL function inline_code_block line 1 at SQL statement" {
			t.Errorf("the context of a function: %q", r.Context)
		}
		for _, state := range []string{"22P02", "42P01", "42601", "42704", "22007", "22012"} {
			if seen[state].Message == "" {
				t.Errorf("no error %s was seen", state)
			}
		}
		if last := records[len(records)-1]; last.Message != "database system is shut down" || last.Backend != "postmaster" || last.User != "" {
			t.Errorf("last: %+v", last)
		}
	})
}

func readLog(text string) (records []postgres.LogRecord) {
	var a postgres.LogAssembler
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if r, ok := a.Add(line); ok {
			records = append(records, r)
		}
	}
	if r, ok := a.Flush(); ok {
		records = append(records, r)
	}
	return records
}

func TestABackupLabelOfAServerIsRead(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: map[string]string{"log_timezone": "UTC"}})
		start := "SELECT pg_backup_start('shop: first', true)"
		stop := "SELECT labelfile FROM pg_backup_stop(false)"
		if pg.Major < 15 {
			start, stop = "SELECT pg_start_backup('shop: first', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
		}
		out := s.Run(t, "psql", "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--dbname="+s.DSN(), "--command="+start, "--command="+stop)
		begun, text, _ := strings.Cut(out, "\n")
		label, err := postgres.ParseBackupLabel([]byte(text))
		if err != nil || label.StartLSN.String() != begun || label.Label != "shop: first" || label.StartTimeline != 1 || label.From != "primary" {
			t.Errorf("%s: %+v, %v", out, label, err)
		}
		if _, err := label.Started(); err != nil {
			t.Error(err)
		}
		if got := string(label.Render()); got != strings.TrimSuffix(text, "\n") {
			t.Errorf("rendered:\n%s\nread:\n%s", got, text)
		}
	})
}
