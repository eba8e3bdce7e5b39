//go:build postgres

package basebackup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

const (
	strangeDatabase = "Bücher & \"alte\" 書, it's"
	strangeTable    = "Größe in m²"
	strangeSpace    = "Räume 2"
)

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// in runs statements in a database.
func in(t *testing.T, s *pgtest.Server, database, statements string) string {
	t.Helper()
	config, err := pgx.ParseConfig(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	config.Database = database
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	results, err := conn.PgConn().Exec(t.Context(), statements).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	var all []string
	for _, result := range results {
		for _, row := range result.Rows {
			all = append(all, string(row[0]))
		}
	}
	return strings.Join(all, "\n")
}

// comeAndGo makes, grows, shrinks and drops relations in a table space until it is stopped, with checkpoints, which remove
// the files of what was dropped.
func (r *rig) comeAndGo(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := pgx.Connect(t.Context(), r.DSN())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close(context.WithoutCancel(ctx))
		for n := 0; ctx.Err() == nil; n++ {
			for _, statement := range []string{
				fmt.Sprintf("CREATE TABLE gone%d (id int PRIMARY KEY, note text) TABLESPACE %s", n, quoted(strangeSpace)),
				fmt.Sprintf("INSERT INTO gone%d SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i", n),
				"INSERT INTO grows SELECT n, md5(n::text) FROM generate_series(1, 3000) n",
				"DELETE FROM shrinks WHERE id > (SELECT max(id) - 300 FROM shrinks)", "VACUUM shrinks",
				fmt.Sprintf("TRUNCATE gone%d", n),
				fmt.Sprintf("DROP TABLE gone%d", max(0, n-3)), "CHECKPOINT",
			} {
				if n < 3 && strings.HasPrefix(statement, "DROP") {
					continue
				}
				if _, err := conn.Exec(context.WithoutCancel(ctx), statement); err != nil {
					t.Errorf("%s: %v", statement, err)
					return
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// strangeContents is what has to come back, of both databases.
func strangeContents(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	const sum = "SELECT count(*) || ' ' || md5(string_agg(x::text, ',' ORDER BY x::text)) FROM %s x"
	var all []string
	for _, table := range append(strings.Fields(s.SQL("SELECT relname FROM pg_class WHERE relname LIKE 'gone%' AND relkind = 'r' ORDER BY 1")), "grows", "shrinks") {
		all = append(all, table+" "+s.SQL(fmt.Sprintf(sum, table)))
	}
	return strings.Join(append(all, in(t, s, strangeDatabase, fmt.Sprintf(sum, quoted(strangeTable)))), "\n")
}

func TestFilesThatComeAndGoAndPlacesOfAnyNameAreBackedUp(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	all := pgtest.Installed(t)
	pg := all[len(all)-1]
	r := newRig(t, pg)
	root := pgtest.Dir(t)
	place := filepath.Join(root, `Platz für "Größeres" & mehr\書`)
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	pgtest.Own(t, root)
	in(t, r.Server, "postgres", fmt.Sprintf("CREATE TABLESPACE %s LOCATION '%s'", quoted(strangeSpace), place))
	in(t, r.Server, "postgres", "CREATE DATABASE "+quoted(strangeDatabase))
	in(t, r.Server, strangeDatabase, fmt.Sprintf("CREATE TABLE %[1]s TABLESPACE %[2]s AS SELECT n, md5(n::text) FROM generate_series(1, 20000) n; "+
		`CREATE INDEX "nach ""n""" ON %[1]s (n) TABLESPACE %[2]s`, quoted(strangeTable), quoted(strangeSpace)))
	r.SQL("CREATE TABLE grows (id int, note text); CREATE TABLE shrinks AS SELECT n AS id, repeat(md5(n::text), 10) AS note FROM generate_series(1, 60000) n")

	stop := r.comeAndGo(t)
	r.task.MaxBytesPerSecond = 16 << 20 // so that much happens meanwhile
	result, err := r.worker(silent).Run(t.Context(), r.task)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB in the backup", result.LogicalBytes>>20)
	r.awaitArchived(t)
	want := strangeContents(t, r.Server)
	oid := r.SQL(fmt.Sprintf("SELECT oid FROM pg_tablespace WHERE spcname = '%s'", strangeSpace))
	r.Stop()

	other := filepath.Join(pgtest.Dir(t), `ein anderer Ort\ "für" 書`)
	restored := r.restoreWith(t, pg, backup.RestoreOptions{Tablespaces: map[string]string{oid: other}})
	if got := strangeContents(t, restored); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	if got := restored.SQL("SELECT pg_tablespace_location(" + oid + ")"); got != other {
		t.Errorf("the table space is in %q, not in %q", got, other)
	}
}
