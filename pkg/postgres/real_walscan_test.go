//go:build postgres

package postgres_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// walWorkload makes records of every kind that the scan must read or pass over.
const walWorkload = `
CREATE TABLE t (i int PRIMARY KEY, s text);
SELECT pg_replication_origin_create('there');
DO $$ BEGIN FOR n IN 1..300 LOOP INSERT INTO t VALUES (n, repeat('x', n)); COMMIT; END LOOP; END $$;
SELECT pg_create_restore_point('the first');
DO $$ BEGIN FOR n IN 1..200 LOOP INSERT INTO t VALUES (1000+n, 'y'); ROLLBACK; END LOOP; END $$;
DO $$ BEGIN FOR n IN 1..500 LOOP BEGIN INSERT INTO t VALUES (2000+n, 'z'); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$;
INSERT INTO t SELECT n, repeat(md5(n::text), 100) FROM generate_series(10000, 12000) n;
CHECKPOINT;
UPDATE t SET s = s || 'w' WHERE i % 7 = 0;
SELECT pg_logical_emit_message(false, 'big', repeat('m', 3000000));
BEGIN; INSERT INTO t VALUES (-1, 'p'); PREPARE TRANSACTION 'one'; COMMIT PREPARED 'one';
BEGIN; INSERT INTO t VALUES (-2, 'p'); PREPARE TRANSACTION 'two'; ROLLBACK PREPARED 'two';
SELECT pg_replication_origin_session_setup('there');
BEGIN; SELECT pg_replication_origin_xact_setup('0/123', now()); INSERT INTO t VALUES (-3, 'o'); COMMIT;
SELECT pg_replication_origin_session_reset();
SELECT pg_create_restore_point('the second, after all');
SELECT pg_switch_wal();
INSERT INTO t VALUES (-4, 'after the switch');
`

func TestTheScanFindsWhatPgWaldumpFinds(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{"--wal-segsize=1"}, Params: map[string]string{
			"wal_level": "logical", "max_prepared_transactions": "5", "wal_keep_size": "1GB", "wal_compression": "on",
		}})
		for statement := range strings.SplitSeq(walWorkload, ";\n") {
			if strings.TrimSpace(statement) != "" {
				run(t, s, statement)
			}
		}
		s.Stop()
		got, want := scanServer(t, s), waldump(t, s)
		if got.commits != len(want.commits) || got.commits < 300 {
			t.Errorf("%d commits, pg_waldump finds %d", got.commits, len(want.commits))
		}
		if got.first != want.commits[0] || got.last != want.commits[len(want.commits)-1] {
			t.Errorf("from %v to %v, pg_waldump: from %v to %v", got.first, got.last, want.commits[0], want.commits[len(want.commits)-1])
		}
		if !got.latest.Equal(want.latest) {
			t.Errorf("latest %v, pg_waldump: %v", got.latest, want.latest)
		}
		if !slices.Equal(got.points, want.points) || len(got.points) != 2 {
			t.Errorf("restore points %v, pg_waldump: %v", got.points, want.points)
		}
		for _, c := range got.edges {
			if !slices.Contains(want.commits, c) {
				t.Errorf("pg_waldump knows no commit %v", c)
			}
		}
	})
}

// run keeps the statements of one session together where a session has a state.
func run(t *testing.T, s *pgtest.Server, statement string) {
	t.Helper()
	if strings.Contains(statement, "session_setup") || strings.Contains(statement, "session_reset") {
		return // in one session with the transaction below
	}
	if strings.Contains(statement, "xact_setup") {
		statement = "SELECT pg_replication_origin_session_setup('there')" + ";\n" + statement
	}
	args := []string{"--no-psqlrc", "--quiet", "--output=/dev/null", "--set=ON_ERROR_STOP=1", "--dbname=" + s.DSN()}
	for one := range statementsOf(statement) {
		args = append(args, "--command="+one)
	}
	s.Run(t, "psql", args...)
}

// statementsOf splits at semicolons, but for those within a DO block.
func statementsOf(text string) func(func(string) bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "DO ") {
		return slices.Values([]string{text})
	}
	return strings.SplitSeq(text, ";")
}

func firstSegment(t *testing.T, s *pgtest.Server) postgres.Segment {
	files, err := filepath.Glob(filepath.Join(s.DataDir, "pg_wal", "0*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WAL: %v", err)
	}
	first, err := postgres.ParseSegment(filepath.Base(slices.Min(files)), postgres.MinSegSize)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

type found struct {
	commits     int
	first, last postgres.Commit
	edges       []postgres.Commit // the first and last of each segment
	latest      time.Time
	points      []string
}

// scanServer scans all segments of a stopped server in their order.
func scanServer(t *testing.T, s *pgtest.Server) (all found) {
	files, err := filepath.Glob(filepath.Join(s.DataDir, "pg_wal", "0*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	var tail postgres.WALTail
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scan, err := postgres.ScanWAL(content, tail)
		if err != nil || scan.Major != s.Major || scan.Segment.Name() != filepath.Base(file) {
			break // from here on they are not written yet
		}
		t.Logf("%s: %d commits, complete %v, end %v, tail %d at %v", scan.Segment, scan.Commits, scan.Complete, scan.End, len(scan.Tail.Data), scan.Tail.LSN)
		if !scan.Complete && i < len(files)-1 {
			if next, err := os.ReadFile(files[i+1]); err == nil {
				if follows, err := postgres.ScanWAL(next, scan.Tail); err == nil && follows.Segment == scan.Segment.Next() && follows.End != 0 {
					t.Errorf("%s is not read to its end, but there is more after it", scan.Segment)
				}
			}
		}
		all.take(scan)
		tail = scan.Tail
	}
	return all
}

func (f *found) take(scan postgres.WALScan) {
	for _, p := range scan.RestorePoints {
		f.points = append(f.points, p.LSN.String()+" "+p.Name)
	}
	if scan.LatestTime.After(f.latest) {
		f.latest = scan.LatestTime
	}
	if scan.Commits == 0 {
		return
	}
	if f.commits == 0 {
		f.first = scan.First
	}
	f.commits, f.last = f.commits+scan.Commits, scan.Last
	f.edges = append(f.edges, scan.First, scan.Last)
}

type dumped struct {
	commits []postgres.Commit
	latest  time.Time
	points  []string
}

var (
	dumpLine  = regexp.MustCompile(`lsn: ([0-9A-F/]+), .*desc: (COMMIT|COMMIT_PREPARED|ABORT|ABORT_PREPARED|RESTORE_POINT)[ :]*(.*)$`)
	dumpStamp = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} UTC`)
)

func waldump(t *testing.T, s *pgtest.Server) (all dumped) {
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, s.BinDir, s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	out := s.Run(t, "pg_waldump", "--path="+filepath.Join(s.DataDir, "pg_wal"), "--rmgr=Transaction", "--rmgr=XLOG",
		"--start="+firstSegment(t, s).Start().String(), "--end="+control.Checkpoint.String())
	for line := range strings.Lines(out) {
		if m := dumpLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			all.take(t, m[1], m[2], m[3])
		}
	}
	return all
}

func (d *dumped) take(t *testing.T, at, what, rest string) {
	lsn, err := postgres.ParseLSN(at)
	if err != nil {
		t.Fatal(err)
	}
	if what == "RESTORE_POINT" {
		d.points = append(d.points, lsn.String()+" "+rest)
		return
	}
	stamp, err := time.Parse("2006-01-02 15:04:05.000000 MST", dumpStamp.FindString(rest))
	if err != nil {
		t.Fatalf("%s: %v", rest, err)
	}
	if stamp.After(d.latest) {
		d.latest = stamp
	}
	if strings.HasPrefix(what, "COMMIT") {
		d.commits = append(d.commits, postgres.Commit{LSN: lsn, Time: stamp})
	}
}
