//go:build postgres

package initialize

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// after is the data directory that an init Job with this SQL leaves.
func after(t *testing.T, pg pgtest.Installation, texts ...string) (Worker, error) {
	t.Helper()
	dir := pgtest.Dir(t)
	task := agentapi.InitJob{DataGeneration: "g1", MajorVersion: pg.Major, Database: "shop", Owner: "clerk"}
	path := func(_ int, file agentapi.SQLFile) string { return filepath.Join(dir, file.ConfigMap, file.Key) }
	for i, text := range texts {
		file := agentapi.SQLFile{ConfigMap: "c" + string(rune('0'+i)), Key: "schema.sql"}
		task.SQL = append(task.SQL, file)
		if text == "" {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path(i, file)), 0o700), os.WriteFile(path(i, file), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w := Worker{Volume: generation.Volume(t.TempDir()), Run: pgtest.Exec, Now: time.Now, SQLPath: path}
	_, err := w.Init(t.Context(), task)
	return w, err
}

func TestSQLRunsOnceAsTheRoleOfTheApplication(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		w, err := after(t, pg, "CREATE TABLE t (n int);\nINSERT INTO t VALUES (1), (2);", "INSERT INTO t SELECT count(*) FROM t; CREATE EXTENSION pg_trgm")
		if err != nil {
			t.Fatal(err)
		}
		control, err := postgres.ReadControlData(t.Context(), postgres.Exec, pg.BinDir, w.Volume.PGData("g1"))
		if err != nil || !control.State.Clean() {
			t.Fatalf("%v; %+v", err, control.State)
		}
		out, err := postgres.Exec(t.Context(), "sh", "-c", `echo "$1" | "$2"/postgres --single -D "$3" shop`, "sh",
			"SELECT string_agg(n::text, ',') || ' ' || (SELECT tableowner FROM pg_tables WHERE tablename = 't') FROM t", pg.BinDir, w.Volume.PGData("g1"))
		if err != nil || !strings.Contains(string(out), `"1,2,2 clerk"`) {
			t.Errorf("%v; %s", err, out)
		}
	})
}

func TestSQLOfAnybodyIsNoWayToASuperuserAndFailsForGood(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	pg := pgtest.Installed(t)[0]
	for _, c := range subset.Some(3, []struct{ text, says string }{
		{"RESET ROLE; RESET SESSION AUTHORIZATION;\nSET ROLE postgres", `permission denied to set role "postgres"`},
		{"SET SESSION AUTHORIZATION postgres", "permission denied"},
		{"CREATE TABLE t (n text);\nCOPY t FROM PROGRAM 'id'", "pg_execute_server_program"},
		{"SELECT pg_read_file('/etc/passwd')", "permission denied"},
		{"ALTER ROLE clerk SUPERUSER", "must be superuser"},
		{"ALTER SYSTEM SET archive_command = 'true'", "permission denied"},
		{"CREATE TABLE t (n int);\n\nSELEKT 1", "line 3"},
		{"COPY t FROM stdin;\n1\n", "needs a client"},
		{"\\! id", "syntax error"},
	}) {
		t.Run(c.text, func(t *testing.T) {
			w, err := after(t, pg, c.text)
			if !isFinal(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "ConfigMap c0") {
				t.Error(err)
			}
			if id, err := w.Volume.Current(); id != "" {
				t.Errorf("there is a database: %s, %v", id, err)
			}
		})
	}
}

func TestSQLThatIsMissingIsWaitedForAndNamed(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	failure := &job.Failure{}
	_, err := after(t, pgtest.Installed(t)[0], "")
	if !errors.As(err, &failure) || failure.Final || failure.Reason != ReasonSQLMissing || !strings.Contains(err.Error(), "ConfigMap c0 with the key schema.sql") {
		t.Error(err)
	}
}
