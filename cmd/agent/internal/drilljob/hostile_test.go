//go:build postgres

package drilljob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// plant makes the copy one that somebody hostile has written: every role that a suite knows has rights that it was never
// given here, and functions of a tenant come before those of PostgreSQL.
const plant = `
	GRANT postgres, pg_write_all_data, pg_execute_server_program, pg_write_server_files TO howdah_upgrade;
	CREATE FUNCTION public.length(varchar) RETURNS int LANGUAGE sql AS 'SELECT 99';
	CREATE SCHEMA tenant;
	CREATE FUNCTION tenant.pi() RETURNS float8 LANGUAGE sql AS 'SELECT 3::float8';
	CREATE FUNCTION public.attempt(statement text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN EXECUTE statement; RETURN true; END $$;
	ALTER DATABASE shop SET search_path = tenant, pg_catalog, public;
	ALTER ROLE ALL SET statement_timeout = 0`

func TestAnAssertionGetsNoFurtherThanReading(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.sql(t, plant)
		file := filepath.Join(b.SocketDir, "written")
		program := `COPY (SELECT 1) TO PROGRAM 'touch ` + file + `'`
		for name, query := range map[string]string{
			"a change":                      "DELETE FROM public.orders RETURNING true",
			"a change after read-write":     `SELECT public.attempt('SET transaction_read_only = off') AND public.attempt('DELETE FROM public.orders')`,
			"another role":                  `SELECT public.attempt('SET ROLE postgres')`,
			"another session user":          `SELECT public.attempt('SET SESSION AUTHORIZATION postgres')`,
			"another role, then a program":  `SELECT public.attempt('SET ROLE postgres') AND public.attempt($$` + program + `$$)`,
			"a reset role, then a program":  `SELECT public.attempt('RESET ROLE') AND public.attempt($$` + program + `$$)`,
			"a program":                     program,
			"a program in a function":       `SELECT public.attempt($$` + program + `$$)`,
			"a file of the server":          `COPY (SELECT 1) TO '` + file + `'`,
			"a file that the server reads":  `SELECT pg_read_file('PG_VERSION') <> ''`,
			"a role":                        "CREATE ROLE intruder SUPERUSER",
			"the end of another session":    "SELECT bool_and(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
			"a setting of the whole server": "SELECT public.attempt('ALTER SYSTEM SET archive_mode = off')",
		} {
			if message, err := b.one(t, "", query); err != nil || message == "" {
				t.Errorf("%s: it was let through; %v", name, err)
			}
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("an assertion has run a program or written a file")
		}
		if left := b.sql(t, "SELECT count(*) FROM public.orders"); left != "1000\n" && left != "1000" {
			t.Errorf("%s rows of 1000 are left", left)
		}
	})
}

func TestATenantsFunctionIsNotCalledInsteadOfPostgreSQLs(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.sql(t, plant)
		for name, query := range map[string]string{
			"a better match in public":      "SELECT length('x'::varchar) = 1",
			"a search_path of the database": "SELECT pi() > 3.1",
		} {
			if message, err := b.one(t, "", query); err != nil || message != "" {
				t.Errorf("%s: %q; %v", name, message, err)
			}
		}
	})
}

func TestTheRoleOfAssertionsCanOnlyReadWhateverTheTransactionAllows(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.sql(t, plant)
		err := b.withReader(t.Context(), func(reader string) error {
			conn, err := b.session(t.Context(), reader, "shop")
			if err != nil {
				return err
			}
			defer conn.Close(t.Context())
			if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
				return err
			}
			for _, statement := range []string{
				"INSERT INTO public.orders VALUES (1, 'x')", "CREATE TABLE public.mine ()", "CREATE ROLE intruder", "SET SESSION AUTHORIZATION postgres",
				"SET ROLE howdah_upgrade", "ALTER ROLE CURRENT_USER SUPERUSER", "COPY (SELECT 1) TO PROGRAM 'true'",
			} {
				if _, err := conn.Exec(t.Context(), statement); faultOf(err) == nil || faultOf(err).Code != "42501" {
					t.Errorf("%s: %v, and not insufficient_privilege", statement, err)
				}
			}
			return nil
		})
		if left := strings.TrimSpace(b.sql(t, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'howdah_drill%'")); err != nil || left != "0" {
			t.Errorf("%s roles of drills are left; %v", left, err)
		}
	})
}

func TestNoAssertionIsAskedWhereReadersMayDoMoreThanRead(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.sql(t, "CREATE ROLE between; GRANT pg_execute_server_program TO between; GRANT between TO pg_read_all_data")
	failure := &job.Failure{}
	if _, err := b.one(t, "", "SELECT true"); !errors.As(err, &failure) || !failure.Final || !strings.Contains(err.Error(), "(between, pg_execute_server_program, pg_read_all_data)") {
		t.Errorf("%v", err)
	}
}

func TestAnAssertionThatTakesTooLongOrWaitsForALockIsFalse(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.StatementTimeout, b.LockTimeout = 100*time.Millisecond, time.Minute
	if message, err := b.one(t, "", "SELECT pg_sleep(3600) IS NOT NULL"); err != nil || message != "it took longer than 100ms" {
		t.Errorf("a long one: %q; %v", message, err)
	}
	holder, err := pgx.Connect(t.Context(), b.Superuser+" dbname=shop")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(t.Context())
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE public.orders"); err != nil {
		t.Fatal(err)
	}
	b.StatementTimeout, b.LockTimeout = time.Minute, 100*time.Millisecond
	if message, err := b.one(t, "", "SELECT count(*) > 0 FROM public.orders"); err != nil || message != "it waited for a lock for longer than 100ms" {
		t.Errorf("one that waits: %q; %v", message, err)
	}
}
