//go:build postgres

package drilljob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed is a server with the roles that every cluster has, and a worker that looks at it.
type bed struct {
	*pgtest.Server
	Worker
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	t.Helper()
	b := &bed{Server: pgtest.Start(t, pgtest.Options{Major: pg.Major, HBA: "local all postgres trust\nlocal all all scram-sha-256\n"})}
	wanted := roles.Wanted{Major: pg.Major, Database: "shop", Owner: "app", Password: "app"}
	if err := roles.Ensure(t.Context(), local.Server{SocketDir: b.SocketDir, Port: 5432}, wanted); err != nil {
		t.Fatal(err)
	}
	b.Worker = Worker{
		BinDir: pg.BinDir, Superuser: "host=" + b.SocketDir + " user=postgres options=" + postgres.QuoteConnInfo(postgres.SessionOptions(postgres.SessionSettings(pg.Major))), Server: "host=" + b.SocketDir,
		StatementTimeout: time.Minute, LockTimeout: time.Minute,
		Patience: time.Minute, Pause: 10 * time.Millisecond, Now: time.Now,
	}
	b.SQL("CREATE TABLE here (n int)")
	b.sql(t, "SET ROLE app; CREATE TABLE orders AS SELECT n, 'secret' || n AS word FROM generate_series(1, 1000) AS n; CREATE INDEX orders_n ON orders (n)")
	return b
}

// sql runs statements in the application's database.
func (b *bed) sql(t *testing.T, statements string) string {
	t.Helper()
	return b.SQLIn("shop", statements)
}

func (b *bed) look(t *testing.T, assertions ...agentapi.DrillAssertion) agentapi.DrillResult {
	t.Helper()
	result, err := b.Worker.Run(t.Context(), agentapi.DrillJob{Database: "shop", Assertions: assertions})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// one asks one assertion as the role that assertions get.
func (b *bed) one(t *testing.T, database, query string) (message string, err error) {
	t.Helper()
	err = b.withReader(t.Context(), func(reader string) (err error) {
		message, err = b.ask(t.Context(), reader, agentapi.DrillAssertion{Database: database, Query: query}, "shop")
		return err
	})
	return message, err
}

func TestAssertionsAreAskedAndTheirMessagesHaveNoData(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.sql(t, `CREATE FUNCTION fails(word text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'no such %', word USING ERRCODE = '42P01'; END $$`)
		for name, c := range map[string]struct{ database, query, want string }{
			"true":               {"", "SELECT count(*) = 1000 FROM public.orders", ""},
			"another database":   {"postgres", "SELECT count(*) = 0 FROM public.here", ""},
			"false":              {"", "SELECT count(*) > 1000 FROM public.orders", "it is false"},
			"null":               {"", "SELECT NULL::bool", "it is null"},
			"no row":             {"", "SELECT true FROM public.orders WHERE n < 0", "it gave no row"},
			"rows":               {"", "SELECT true FROM public.orders", "it gave more than one row"},
			"columns":            {"", "SELECT true, true", "it gave 2 columns, and not one"},
			"text":               {"", "SELECT word FROM public.orders LIMIT 1", "it gave something that is not a boolean"},
			"no table":           {"", "SELECT count(*) > 0 FROM nowhere", `relation "nowhere" does not exist (SQLSTATE 42P01); a name needs its schema, such as public.orders`},
			"no database":        {"nowhere", "SELECT true", "there is no database nowhere"},
			"a value in a cast":  {"", "SELECT bool_and(word::int > 0) FROM public.orders", "it ended with an error (SQLSTATE 22P02)"},
			"a value in a raise": {"", "SELECT bool_and(public.fails(word)) FROM public.orders", "it ended with an error (SQLSTATE 42P01)"},
			"two statements":     {"", "SELECT true; SELECT true", "it ended with an error (SQLSTATE 42601): cannot insert multiple commands into a prepared statement"},
			"a change":           {"", "DELETE FROM public.orders RETURNING true", "it ended with an error (SQLSTATE 25006)"},
		} {
			message, err := b.one(t, c.database, c.query)
			if err != nil || message != c.want {
				t.Errorf("%s: %q, not %q; %v", name, message, c.want, err)
			}
		}
	})
}

func TestNoSettingOfARoleOrADatabaseReachesPgAmcheck(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQL(pgtest.Unkind(pg.Major, "postgres", "postgres"))
		if result := b.look(t); result.CorruptCount != 0 {
			t.Errorf("%+v", result)
		}
		unpinned := b.Server.Run(t, "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--dbname="+b.Superuser+" dbname=postgres",
			"--command="+pgtest.Unpinned(pg.Major))
		if unpinned != "\n" {
			t.Errorf("these reach it: %s", unpinned)
		}
	})
}

func TestAWholeDatabaseIsFoundRightAndItsAssertionsAreCounted(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		result := b.look(t, agentapi.DrillAssertion{Name: "some", Query: "SELECT count(*) > 0 FROM public.orders"},
			agentapi.DrillAssertion{Name: "more", Query: "SELECT count(*) > 5000 FROM public.orders"})
		if result.CorruptCount != 0 || result.FailedCount != 1 || result.Failed[0] != (agentapi.FailedAssertion{Name: "more", Message: "it is false"}) {
			t.Errorf("result %+v", result)
		}
	})
}

func TestADamagedTableIsNamedAndTheAssertionsAreAskedNevertheless(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	path := filepath.Join(b.DataDir, strings.TrimSpace(b.sql(t, "CHECKPOINT; SELECT pg_relation_filepath('orders')")))
	b.Stop()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("damage"), 8192+4000); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	b.Start()
	result := b.look(t, agentapi.DrillAssertion{Name: "none", Query: "SELECT false"})
	if result.CorruptCount == 0 || !strings.Contains(strings.Join(result.Corrupt, " "), `"shop.public.orders"`) || result.FailedCount != 1 {
		t.Errorf("result %+v", result)
	}
}

func TestAnImageWithoutPgAmcheckAndAServerThatIsAwayAreSaid(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	failure := &job.Failure{}
	b.BinDir = t.TempDir()
	if _, err := b.Worker.Run(t.Context(), agentapi.DrillJob{}); !errors.As(err, &failure) || failure.Reason != ReasonBadImage || !failure.Final {
		t.Errorf("without pg_amcheck: %v", err)
	}
	b.Stop()
	b.Patience = 100 * time.Millisecond
	if _, err := b.Worker.Run(t.Context(), agentapi.DrillJob{}); !errors.As(err, &failure) || failure.Final || !strings.Contains(err.Error(), "can't log in") {
		t.Errorf("without a server: %v", err)
	}
}
