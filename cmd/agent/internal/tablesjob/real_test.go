//go:build postgres

package tablesjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed are a copy that has what a backup had, and a running cluster.
type bed struct {
	copy, target *pgtest.Server
	worker       *Worker
	progress     []job.Progress
}

// roles that both servers have.
const roles = `CREATE ROLE shop LOGIN; CREATE ROLE clerk; CREATE ROLE owner; GRANT owner TO shop; CREATE DATABASE shop OWNER shop`

// before is what was there when the backup was taken.
const before = `SET ROLE shop;
	CREATE TABLE public.customers (id int PRIMARY KEY, name text);
	INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 100) AS n;
	CREATE TYPE public.state AS ENUM ('open', 'paid');
	CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;`

const orders = `SET ROLE shop;
	CREATE TABLE public.orders (id bigserial PRIMARY KEY, customer int REFERENCES public.customers, state public.state DEFAULT 'open', total numeric,
		twice numeric GENERATED ALWAYS AS (total * 2) STORED, note text, CONSTRAINT total_is_positive CHECK (total > 0));
	INSERT INTO orders (customer, total, note) SELECT n % 100 + 1, n, E'tab\t\\ ' || n FROM generate_series(1, 5000) AS n;
	CREATE INDEX orders_customer ON public.orders (customer);
	COMMENT ON TABLE public.orders IS 'it''s what was ordered'; COMMENT ON COLUMN public.orders.note IS 'free text';
	CREATE TRIGGER touched BEFORE UPDATE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.touch();
	ALTER TABLE public.orders ENABLE ROW LEVEL SECURITY;
	CREATE POLICY clerks ON public.orders FOR SELECT TO clerk USING (state = 'open');
	GRANT SELECT, UPDATE (note) ON public.orders TO clerk;
	CREATE TABLE public.items (order_id bigint REFERENCES public.orders, sku text);
	CREATE VIEW public.open_orders AS SELECT * FROM public.orders WHERE state = 'open';`

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	t.Helper()
	b := &bed{copy: pgtest.Start(t, pgtest.Options{Major: pg.Major}), target: pgtest.Start(t, pgtest.Options{Major: pg.Major})}
	for _, s := range []*pgtest.Server{b.copy, b.target} {
		for _, statement := range strings.Split(roles, ";") {
			s.SQL(statement)
		}
		s.SQLIn("shop", "GRANT CREATE ON SCHEMA public TO shop, owner;"+before+orders)
	}
	side := func(name string, s *pgtest.Server, user string) Side {
		return Side{Name: name, MajorVersion: pg.Major, Connection: func() (string, error) { return "host=" + s.SocketDir + " user=" + user, nil }}
	}
	b.worker = &Worker{
		Task: agentapi.TablesJob{Object: agentapi.Object{UID: "6f1c2d3e-0000-4000-8000-0123456789ab"}, Tables: []string{"public.orders"}}, BinDir: pg.BinDir,
		Target: side("the running cluster", b.target, "shop"), Copy: side("the copy", b.copy, "postgres"), Database: "shop", IntoDatabase: "shop",
		Scratch: t.TempDir(), Report: func(p job.Progress) { b.progress = append(b.progress, p) }, Now: time.Now,
		Attempts: 3, Patience: 20 * time.Second, Pause: 10 * time.Millisecond, LockTimeout: time.Second,
	}
	return b
}

func (b *bed) run(t *testing.T) agentapi.TablesResult {
	t.Helper()
	result, err := b.worker.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// fails expects a reason and parts of the message, and that the running cluster is as it was.
func (b *bed) fails(t *testing.T, reason string, parts ...string) {
	t.Helper()
	was := b.look()
	_, err := b.worker.Run(t.Context())
	failure := &job.Failure{}
	if !errors.As(err, &failure) || failure.Reason != reason {
		t.Errorf("it ended with %v, and not %s", err, reason)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if is := b.look(); is != was {
		t.Errorf("the running cluster was changed from\n%s\nto\n%s", was, is)
	}
}

// look is what the application's database has.
func (b *bed) look() string {
	return b.target.SQLIn("shop", `SELECT n.nspname, c.relname, c.relkind, c.oid, coalesce(c.relacl::text, ''), (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2`)
}

// describe is pg_dump's description of a table, with its rows.
func describe(t *testing.T, s *pgtest.Server, tables ...string) string {
	t.Helper()
	args := []string{"--host=" + s.SocketDir, "--username=postgres", "--dbname=shop"}
	for _, table := range tables {
		args = append(args, "--table="+table)
	}
	lines := strings.Split(s.Run(t, "pg_dump", args...), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, `\restrict`) || strings.HasPrefix(line, `\unrestrict`)
	}), "\n")
}

func TestADroppedTableIsBroughtBackWithAllThatBelongsToItAndLaterWritesElsewhereSurvive(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.target.SQLIn("shop", "DROP TABLE orders CASCADE; INSERT INTO customers VALUES (101, 'later'); UPDATE customers SET name = 'changed' WHERE id = 7")
		result := b.run(t)
		if got, want := describe(t, b.target, "public.orders"), describe(t, b.copy, "public.orders"); got != want {
			t.Errorf("the table is\n%.6000s\nand not\n%.6000s", got, want)
		}
		if got := b.target.SQLIn("shop", "SELECT count(*), count(*) FILTER (WHERE name = 'changed') FROM customers"); got != "101|1" {
			t.Errorf("what was written later is %s", got)
		}
		if got := b.target.SQLIn("shop", "SET ROLE shop; INSERT INTO orders (customer, total) VALUES (101, 1) RETURNING id"); got != "5001" {
			t.Errorf("the sequence continues with %s", got)
		}
		if result.Rows != 5000 || result.Bytes == 0 || result.RestoredCount != 2 || result.Restored[0] != "public.orders" || result.Role != "shop" {
			t.Errorf("result: %+v", result)
		}
		if left := strings.Join(result.NotRestored, "; "); !strings.Contains(left, "items_order_id_fkey on public.items") || !strings.Contains(left, "view public.open_orders") {
			t.Errorf("not restored: %s", left)
		}
		last := b.progress[len(b.progress)-1]
		if last.DoneBytes != last.TotalBytes || last.TotalBytes == 0 || last.Phase != phaseIndexing {
			t.Errorf("progress: %+v", last)
		}
		if open := b.target.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah-restore'"); open != "0" {
			t.Errorf("%s sessions are left", open)
		}
	})
}

func TestNothingThatExistsIsOverwritten(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.fails(t, ReasonObjectExists, "public.orders", "intoSchema in another Restore")
	b.worker.Task.CheckOnly = true
	b.fails(t, ReasonObjectExists, "public.orders")
	b.worker.Task.CheckOnly = false
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE; CREATE INDEX orders_pkey ON customers (name)")
	b.fails(t, ReasonObjectExists, "orders_pkey")
	b.target.SQLIn("shop", "DROP INDEX orders_pkey; CREATE SEQUENCE orders_id_seq")
	b.fails(t, ReasonObjectExists, "public.orders_id_seq")
	b.worker.Task.Tables, b.worker.Task.Schemas = nil, []string{"public"}
	b.worker.Task.Object.UID = "another"
	b.fails(t, ReasonObjectExists, "public.customers")
}

func TestATableThatIsCreatedMeanwhileStays(t *testing.T) {
	for _, at := range []string{"begin", "commit"} {
		b := newBed(t, pgtest.Installed(t)[0])
		b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
		refused := ""
		b.worker.Step = func(step string) error {
			if step == at {
				refused = createTable(b)
			}
			return nil
		}
		_, err := b.worker.Run(t.Context())
		failure := &job.Failure{}
		if at == "begin" && (!errors.As(err, &failure) || failure.Reason != ReasonObjectExists || b.target.SQLIn("shop", "SELECT count(*) FROM orders") != "0") {
			t.Errorf("%s: %v", at, err)
		}
		if at == "commit" && (err != nil || refused == "") { // whoever comes second waits, and is refused
			t.Errorf("%s: %v, and the other: %q", at, err, refused)
		}
	}
}

func createTable(b *bed) string {
	return b.target.SQLIn("shop", `SET lock_timeout = '100ms'; SET plpgsql.variable_conflict = 'error';
		CREATE FUNCTION pg_temp.attempt() RETURNS text LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE public.orders (theirs int); RETURN ''; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
		SELECT pg_temp.attempt()`)
}

var errKilled = errors.New("killed")

func TestARestoreThatIsKilledAnywhereIsWholeOrNothing(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	for _, at := range []string{"begin", "tables", "rows", "indexes", "commit"} {
		b.worker.Step = func(step string) error {
			if step == at {
				return job.Final("Killed", errKilled)
			}
			return nil
		}
		b.fails(t, "Killed")
	}
	b.worker.Step = nil
	if result := b.run(t); result.Rows != 5000 {
		t.Errorf("result: %+v", result)
	}
}

func TestACommitWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	ctx, kill := context.WithCancel(t.Context())
	b.worker.Step = func(step string) error {
		if step != "committed" {
			return nil
		}
		kill()
		return errKilled
	}
	if _, err := b.worker.Run(ctx); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	b.target.SQLIn("shop", "DELETE FROM orders WHERE id = 1")
	was := b.look()
	b.worker.Step = nil
	result := b.run(t)
	if is := b.look(); is != was || result.RestoredCount != 2 || result.Rows != 5000 || b.target.SQLIn("shop", "SELECT count(*) FROM orders") != "4999" {
		t.Errorf("%+v; it was\n%s\nand is\n%s", result, was, is)
	}
	// The same Job can look by itself.
	b.target.SQLIn("shop", "DROP TABLE orders")
	b.worker.Step = func(step string) error {
		if step == "committed" {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if result := b.run(t); result.Rows != 5000 {
		t.Errorf("result: %+v", result)
	}
	// Another table of that name is not what was restored.
	b.target.SQLIn("shop", "DROP TABLE orders; CREATE TABLE orders (theirs int)")
	b.fails(t, ReasonObjectExists, "public.orders")
}

func TestAnAttemptThatAFailoverEndsBeginsAgain(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	killed := 0
	b.worker.Step = func(step string) error {
		if step == "rows" && killed < 2 {
			killed++
			b.target.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'howdah-restore'")
		}
		return nil
	}
	if result := b.run(t); result.Rows != 5000 || killed != 2 {
		t.Errorf("after %d: %+v", killed, result)
	}
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	b.worker.Step = func(step string) error {
		if step == "commit" { // the connection ends before the server has the command
			b.target.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'howdah-restore'")
		}
		return nil
	}
	b.fails(t, ReasonNotCopied)
}

func TestAForeignKeyThatNoLongerHoldsLeavesNothing(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE; DELETE FROM customers WHERE id = 7")
	b.fails(t, ReasonNotCopied, "orders_customer_fkey", "foreignKeys: Omit")
	b.worker.Task.OmitForeignKeys, b.worker.Task.Object.UID = true, "another"
	if result := b.run(t); result.Rows != 5000 || b.target.SQLIn("shop", "SELECT count(*) FROM pg_constraint WHERE conname = 'orders_customer_fkey'") != "0" {
		t.Errorf("result: %+v", result)
	}
}

func TestWhatATableNeedsIsNamedWhereItIsMissing(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE; DROP TYPE state; DROP FUNCTION touch(); DROP TABLE customers CASCADE")
	b.fails(t, ReasonObjectMissing, "type public.state", "function public.touch()", "table public.customers")
	b.target.SQLIn("shop", before)
	b.target.SQL("DROP ROLE clerk")
	b.fails(t, ReasonObjectMissing, "clerk", "spec.roles")
	b.target.SQL("CREATE ROLE clerk")
	b.worker.Task.Tables, b.worker.Task.Object.UID = []string{"public.orders", "public.orderz", "public.orders_pkey"}, "another"
	b.fails(t, ReasonObjectMissing, "public.orderz")
	b.worker.Task.Tables = []string{"public.orders", "public.orders_pkey"}
	b.fails(t, ReasonObjectMissing, "public.orders_pkey")
	b.worker.IntoDatabase = "nowhere"
	b.fails(t, ReasonObjectMissing, "has no database nowhere")
}

func TestOwnersAreAsTheyWereOrLeftOut(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.copy.SQLIn("shop", "ALTER TABLE orders OWNER TO owner; GRANT SELECT ON orders TO shop")
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	b.run(t)
	owner := func() string {
		return b.target.SQLIn("shop", "SELECT relowner::regrole, coalesce(relacl::text, '') FROM pg_class WHERE relname = 'orders'")
	}
	if got := owner(); !strings.HasPrefix(got, "owner|") || !strings.Contains(got, "clerk=r/owner") {
		t.Errorf("it is %s", got)
	}
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE; REVOKE owner FROM shop")
	b.fails(t, ReasonRoleUnsuitable, "belongs to owner", "privileges: Omit")
	b.worker.Task.OmitPrivileges = true
	b.run(t)
	if got := owner(); got != "shop|" {
		t.Errorf("it is %s", got)
	}
}

func TestTablesGoIntoAnotherSchemaBesideThoseThatExist(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	// An earlier Restore went into the same schema, and was backed up.
	b.copy.SQLIn("shop", "CREATE SCHEMA restored; CREATE TABLE restored.orders (former int)")
	b.copy.SQLIn("shop", `SET ROLE shop; CREATE TABLE public.events (day date, n int) PARTITION BY RANGE (day);
		CREATE TABLE public.events_1 PARTITION OF public.events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01'); INSERT INTO public.events VALUES ('2026-01-05', 1), ('2026-01-06', 2)`)
	b.worker.Task.Tables, b.worker.Task.IntoSchema = []string{"public.orders", "public.events"}, "restored"
	was := describe(t, b.target, "public.orders")
	result := b.run(t)
	if is := describe(t, b.target, "public.orders"); is != was {
		t.Error("the table that exists was changed")
	}
	if got := b.target.SQLIn("shop", `SELECT (SELECT count(*) FROM restored.orders), (SELECT sum(n) FROM restored.events), pg_get_serial_sequence('restored.orders', 'id'),
		(SELECT confrelid::regclass FROM pg_constraint WHERE conrelid = 'restored.orders'::regclass AND contype = 'f')`); got != "5000|3|restored.orders_id_seq|customers" {
		t.Errorf("restored: %s", got)
	}
	if result.RestoredCount != 4 || len(result.NotRestored) != 0 {
		t.Errorf("result: %+v", result)
	}
}

func TestAPartitionIsBroughtBackIntoItsTable(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	const events = `SET ROLE shop; CREATE TABLE public.events (day date, n int) PARTITION BY RANGE (day);
		CREATE TABLE public.events_1 PARTITION OF public.events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01'); INSERT INTO public.events VALUES ('2026-01-05', 1), ('2026-01-06', 2)`
	b.copy.SQLIn("shop", events)
	b.target.SQLIn("shop", events+"; DROP TABLE events_1")
	b.worker.Task.Tables = []string{"public.events_1"}
	b.run(t)
	if got := b.target.SQLIn("shop", "SELECT sum(n) FROM events"); got != "3" {
		t.Errorf("the table has %s", got)
	}
}

func TestASchemaAndADatabaseAreBroughtBack(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	const sales = `SET ROLE shop; CREATE SCHEMA sales; COMMENT ON SCHEMA sales IS 'what was sold'; GRANT USAGE ON SCHEMA sales TO clerk; CREATE TABLE sales.leads (id int GENERATED ALWAYS AS IDENTITY, who text);
		INSERT INTO sales.leads (who) VALUES ('x'), ('y'); CREATE FUNCTION sales.total() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM sales.leads';
		CREATE MATERIALIZED VIEW sales.summary AS SELECT count(*) AS n FROM sales.leads; ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT ON TABLES TO clerk`
	b.copy.SQLIn("shop", sales)
	b.worker.Task.Tables, b.worker.Task.Schemas = nil, []string{"sales"}
	b.run(t)
	const check = "SELECT sales.total(), (SELECT n FROM sales.summary), obj_description('sales'::regnamespace), has_schema_privilege('clerk', 'sales', 'USAGE')"
	if got := b.target.SQLIn("shop", check); got != "2|2|what was sold|t" {
		t.Errorf("the schema has %s", got)
	}
	b.target.SQLIn("shop", "DROP SCHEMA sales CASCADE; CREATE SCHEMA sales AUTHORIZATION shop")
	b.worker.Task.Object.UID = "empty"
	b.run(t)
	if got := b.target.SQLIn("shop", "SELECT sales.total(), (SELECT n FROM sales.summary)"); got != "2|2" {
		t.Errorf("the schema, which was empty, has %s", got)
	}
	b.target.SQL("CREATE DATABASE again OWNER shop")
	b.target.SQLIn("again", "GRANT CREATE ON SCHEMA public TO shop, owner")
	b.worker.Task.Object.UID, b.worker.Task.Schemas, b.worker.IntoDatabase = "whole", nil, "again"
	result := b.run(t)
	if got := b.target.SQLIn("again", "SELECT sales.total(), (SELECT count(*) FROM public.orders), (SELECT count(*) FROM public.customers), (SELECT count(*) FROM public.open_orders)"); got != "2|5000|100|5000" {
		t.Errorf("the database has %s: %+v", got, result)
	}
}

func TestALockOfSomebodyElseIsNotWaitedForForLong(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	b.worker.LockTimeout, b.worker.Attempts = 50*time.Millisecond, 2
	conn, err := b.worker.connect(t.Context(), Side{MajorVersion: b.worker.Target.MajorVersion, Connection: func() (string, error) { return "host=" + b.target.SocketDir + " user=postgres", nil }}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE public.customers IN ROW EXCLUSIVE MODE" /* as a client that writes */); err != nil {
		t.Fatal(err)
	}
	b.fails(t, ReasonNotCopied, "lock timeout")
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	b.run(t)
}

func TestAPowerfulRoleIsRefused(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	for grant, says := range map[string]string{
		"ALTER ROLE shop SUPERUSER": "SUPERUSER", "ALTER ROLE shop CREATEROLE": "CREATEROLE", "ALTER ROLE shop BYPASSRLS": "BYPASSRLS",
		"GRANT pg_execute_server_program TO owner": "a member of pg_execute_server_program", "GRANT postgres TO owner": "a member of postgres",
	} {
		b.target.SQL(grant)
		b.fails(t, ReasonRoleUnsuitable, says, "credentials")
		b.target.SQL("ALTER ROLE shop NOSUPERUSER NOCREATEROLE NOBYPASSRLS")
		b.target.SQL("REVOKE pg_execute_server_program, postgres FROM owner")
	}
}

func TestWhatAHostileBackupSaysRunsAsTheRoleAlone(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	file := filepath.Join(b.target.SocketDir, "written")
	hostile := fmt.Sprintf(`SET ROLE shop;
		CREATE FUNCTION public.grab(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			BEGIN EXECUTE 'SET SESSION AUTHORIZATION postgres'; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE 'RESET SESSION AUTHORIZATION'; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE 'SET ROLE postgres'; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE 'RESET ROLE'; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE $x$COPY (SELECT 1) TO PROGRAM 'touch %s'$x$; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE 'ALTER ROLE shop SUPERUSER'; EXCEPTION WHEN OTHERS THEN END;
			BEGIN EXECUTE 'DELETE FROM public.secrets'; EXCEPTION WHEN OTHERS THEN END;
			INSERT INTO restored.said VALUES (CURRENT_USER, SESSION_USER); RETURN n; END $$;
		CREATE SCHEMA restored; CREATE TABLE public.said (who text, session_who text); CREATE TABLE restored.said (LIKE public.said);
		CREATE TABLE public.trap (n int CHECK (public.grab(n) > 0));
		CREATE FUNCTION public.count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 99::bigint';
		INSERT INTO trap VALUES (1)`, file)
	b.copy.SQLIn("shop", hostile)
	if err := os.RemoveAll(file); err != nil { // in the copy, it was the superuser who inserted
		t.Fatal(err)
	}
	b.target.SQLIn("shop", "CREATE TABLE public.secrets (n int); INSERT INTO public.secrets VALUES (1)")
	b.worker.Task.Tables, b.worker.Task.Schemas, b.worker.Task.IntoSchema = nil, []string{"public"}, "restored"
	b.run(t)
	if got := b.target.SQLIn("shop", "SELECT (SELECT count(*) FROM restored.trap), (SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolsuper), (SELECT n FROM public.secrets)"); got != "1|postgres|1" {
		t.Errorf("there is %s", got)
	}
	if got := b.target.SQLIn("shop", "SELECT DISTINCT who, session_who FROM restored.said"); got != "shop|shop" {
		t.Errorf("its function ran as %s", got)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it has run a program")
	}
}

func TestAPasswordThatIsAboutToBeSetIsWaitedForAndAWrongOneIsNot(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{HBA: "local all postgres trust\nlocal all all scram-sha-256\n"})
	server.SQL("CREATE ROLE late LOGIN PASSWORD 'before'")
	asked := 0
	side := Side{Name: "the copy", MajorVersion: server.Major, Connection: func() (string, error) {
		if asked++; asked == 3 {
			server.SQL("ALTER ROLE late PASSWORD 'after'")
		}
		return "host=" + server.SocketDir + " user=late password=after", nil
	}}
	w := &Worker{Patience: time.Minute, Pause: time.Millisecond, LockTimeout: time.Second}
	failure := &job.Failure{}
	if _, err := w.open(t.Context(), side, "postgres"); !errors.As(err, &failure) || failure.Reason != ReasonRoleUnsuitable || failure.Final || strings.Contains(err.Error(), "after") {
		t.Errorf("a wrong password: %v", err)
	}
	side.Settling = true
	conn, err := w.open(t.Context(), side, "postgres")
	if err != nil || asked != 3 {
		t.Fatalf("after %d: %v", asked, err)
	}
	_ = conn.Close(t.Context())
}

func TestNoFileIsLeft(t *testing.T) {
	b := newBed(t, pgtest.Installed(t)[0])
	b.target.SQLIn("shop", "DROP TABLE orders CASCADE")
	b.run(t)
	left, err := os.ReadDir(b.worker.Scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
