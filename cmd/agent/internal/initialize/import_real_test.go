//go:build postgres

package initialize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/importjob"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// contents of a source: what pg_dump carries, and what an import has to see to itself.
const contents = `
CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'b';
CREATE ROLE staff NOLOGIN;
CREATE ROLE clerk LOGIN PASSWORD 'old secret' CONNECTION LIMIT 7 IN ROLE staff;
CREATE ROLE "Odd ""role" LOGIN NOINHERIT VALID UNTIL '2031-01-01';
CREATE ROLE reader LOGIN PASSWORD 'p:a\s"s w''ord' IN ROLE pg_read_all_data;
CREATE ROLE howdah_backup LOGIN;
COMMENT ON ROLE clerk IS 'sells; it''s here';
SET password_encryption = md5; CREATE ROLE ancient LOGIN PASSWORD 'x'; RESET password_encryption;
GRANT pg_read_server_files TO boss;
ALTER ROLE clerk SET search_path TO sales, "$user", public;
ALTER ROLE clerk SET nowhere.known TO 'a''b';
CREATE DATABASE shop OWNER clerk ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
CREATE DATABASE other OWNER boss;
CREATE DATABASE "odd = 'db" OWNER clerk;
COMMENT ON DATABASE shop IS 'the shop';
ALTER DATABASE shop SET work_mem TO '7MB';
ALTER DATABASE shop SET default_transaction_read_only TO on;
ALTER ROLE clerk IN DATABASE shop SET statement_timeout TO '1h';
REVOKE ALL ON DATABASE shop FROM PUBLIC; GRANT CONNECT ON DATABASE shop TO staff, reader;
`

const inShop = `
SET default_transaction_read_only = off;
CREATE EXTENSION pg_trgm;
CREATE SCHEMA sales AUTHORIZATION clerk;
CREATE TABLE sales.parent (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE NOT NULL, twice text GENERATED ALWAYS AS (name || name) STORED);
CREATE TABLE sales.child (id serial, parent bigint NOT NULL REFERENCES sales.parent, at timestamptz NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE sales.child_1 PARTITION OF sales.child FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
CREATE TABLE "Odd" ("A ""b" text);
CREATE TABLE scratch (n int);
CREATE TABLE log (n int);
CREATE SCHEMA stale CREATE TABLE old (n int);
INSERT INTO sales.parent (name) SELECT 'n' || g || chr(233) FROM generate_series(1, 20000) g;
INSERT INTO sales.child (parent, at) SELECT g, '2025-01-01'::timestamptz + g * interval '1 minute' FROM generate_series(1, 20000) g;
INSERT INTO "Odd" VALUES ('x'), (NULL); INSERT INTO scratch VALUES (1); INSERT INTO log VALUES (1);
CREATE MATERIALIZED VIEW sales.sums AS SELECT count(*) AS n FROM sales.child;
CREATE INDEX ON sales.parent USING gin (name gin_trgm_ops);
CREATE FUNCTION sales.boom() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no triggers while data is copied'; END$$;
CREATE TRIGGER boom BEFORE INSERT ON sales.parent FOR EACH ROW EXECUTE FUNCTION sales.boom();
CREATE VIEW sales.names AS SELECT name FROM sales.parent; COMMENT ON VIEW sales.names IS 'names';
GRANT SELECT ON sales.names TO staff;
GRANT EXECUTE ON FUNCTION pg_catalog.pg_switch_wal() TO howdah_backup;
SELECT setval('sales.child_id_seq', 4711);
SELECT lo_from_bytea(77, 'large object'); GRANT SELECT ON LARGE OBJECT 77 TO reader;
CREATE PUBLICATION pub FOR TABLE sales.parent;
CREATE SUBSCRIPTION sub CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false);
`

// told is what of the imported shop must be as it was.
const told = `SELECT count(*) || ' ' || md5(string_agg(name || twice, ',' ORDER BY id)) FROM sales.parent
UNION ALL SELECT count(*) || ' ' || md5(string_agg(id::text || parent || at, ',' ORDER BY id)) FROM sales.child
UNION ALL SELECT count(*)::text FROM "Odd" WHERE "A ""b" = 'x' UNION ALL SELECT n::text FROM sales.sums UNION ALL SELECT last_value::text FROM sales.child_id_seq
UNION ALL SELECT convert_from(lo_get(77), 'UTF8') UNION ALL SELECT lomacl::text FROM pg_largeobject_metadata
UNION ALL SELECT tablename || tableowner FROM pg_tables WHERE schemaname = 'sales'
UNION ALL SELECT relacl::text || obj_description(oid, 'pg_class') FROM pg_class WHERE relname = 'names'
UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'sales.parent'::regclass
UNION ALL SELECT extname FROM pg_extension UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = 'sales'::regnamespace
UNION ALL SELECT pubname FROM pg_publication UNION ALL SELECT (SELECT string_agg(a::text, ',' ORDER BY a::text) FROM unnest(datacl) a) || datconnlimit || pg_encoding_to_char(encoding) || shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'shop'
UNION ALL SELECT rolname || rolpassword || rolconnlimit || coalesce(shobj_description(oid, 'pg_authid'), '') FROM pg_authid WHERE rolname IN ('clerk', 'reader')
UNION ALL SELECT rolname || rolinherit || rolvaliduntil FROM pg_authid WHERE rolname LIKE 'Odd%'
UNION ALL SELECT coalesce(r.rolname, 'all') || setconfig::text FROM pg_db_role_setting LEFT JOIN pg_roles r ON r.oid = setrole
UNION ALL SELECT roleid::regrole || ' ' || member::regrole FROM pg_auth_members WHERE roleid::regrole::text IN ('staff', 'pg_read_all_data') ORDER BY 1`

// foreign is a source over TLS, and a task that imports from it.
type foreign struct {
	*pgtest.Server
	task    agentapi.InitJob
	secrets string
	found   agentapi.ImportPreflight
	phases  func(job.Progress)
	follows func(importjob.Following) (cutover bool)
	// retained is how much WAL the slots may retain.
	retained int64
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	dir, port := pgtest.Dir(t), pgtest.Port(t)
	host := fmt.Sprintf("127.%d.%d.", port>>8, port&255) // nobody else's
	authority.New(t).Fill(t, dir, "source.example.com", host+"1")
	pgtest.Own(t, dir)
	s := pgtest.Start(t, pgtest.Options{HBA: "local all all trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n", Params: map[string]string{
		"listen_addresses": host + "1," + host + "2", "ssl": "on", "ssl_cert_file": filepath.Join(dir, "tls.crt"), "ssl_key_file": filepath.Join(dir, "tls.key"),
		"wal_level": "logical", "max_prepared_transactions": "2",
	}})
	f := &foreign{Server: s, secrets: t.TempDir(), phases: func(job.Progress) {}}
	content, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(f.secrets, "legacy")
	err = errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "ca.crt"), content, 0o600), os.WriteFile(filepath.Join(folder, "password"), []byte("p:a\\s\"s w'ord\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	f.task = agentapi.InitJob{DataGeneration: "g1", MajorVersion: s.Major, Import: &agentapi.ImportJob{
		Source: agentapi.ImportSource{Host: host + "1", Port: 5432, User: "reader", Database: "postgres", SSLMode: "verify-full",
			Password: &agentapi.SecretKey{Secret: "legacy", Key: "password"}, CA: &agentapi.SecretKey{Secret: "legacy", Key: "ca.crt"}},
		Databases: []agentapi.ImportDatabase{{Name: "shop", ExcludeSchemas: []string{"stale"}, ExcludeTables: []string{"public.scratch"}, ExcludeTableData: []string{"public.log"}}, {Name: "odd = 'db"}},
		Database:  "shop", Owner: "clerk", Connections: 3,
	}}
	return f
}

// run imports onto a volume.
func (f *foreign) run(ctx context.Context, volume generation.Volume) error {
	worker := Worker{Volume: volume, Run: postgres.Exec, Now: time.Now, Secrets: f.secrets, Pause: 50 * time.Millisecond, ReleaseTime: time.Minute, Reports: func(context.Context, agentapi.Object) (Reports, error) {
		return Reports{
			Progress: f.phases, Close: func() {},
			Preflight: func(_ context.Context, found agentapi.ImportPreflight) error { f.found = found; return nil },
			Following: func(ctx context.Context, now importjob.Following) (agentapi.ImportWanted, error) {
				return agentapi.ImportWanted{Cutover: f.follows(now), MaxRetainedBytes: f.retained}, ctx.Err()
			},
		}, nil
	}}
	_, err := worker.Init(ctx, f.task)
	return err
}

// open starts a server on imported data, over a socket of its own.
func open(t *testing.T, major int, pgdata string) local.Server {
	t.Helper()
	binDir, err := postgres.BinDir(t.Context(), postgres.Exec, major)
	if err != nil {
		t.Fatal(err)
	}
	dir := pgtest.Dir(t)
	stop, err := Worker{Run: postgres.Exec}.start(t.Context(), binDir, pgdata, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return local.Server{SocketDir: dir, Port: sqlPort}
}

func answers(t *testing.T, server local.Server, database, query string) string {
	t.Helper()
	var lines []string
	err := server.With(t.Context(), database, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(t.Context(), "SET search_path TO sales, public"); err != nil {
			return err
		}
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// fill the source. A database that only reads needs a session that says otherwise.
func fill(t *testing.T, source local.Server) {
	t.Helper()
	for _, of := range []struct{ database, statements string }{{"postgres", contents}, {"shop", "SET search_path TO public;\n" + inShop}} {
		err := source.With(t.Context(), of.database, func(conn *pgx.Conn) error {
			for statement := range strings.SplitSeq(of.statements, ";\n") {
				if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// endsIn tries an import that is ended in a phase.
func (f *foreign) endsIn(t *testing.T, volume generation.Volume, phase string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	f.phases = func(p job.Progress) {
		if p.Phase == phase {
			once.Do(cancel)
		}
	}
	if err := f.run(ctx, volume); err == nil {
		t.Errorf("it continues after its end in %s", phase)
	}
	if id, err := volume.Current(); err == nil {
		t.Errorf("%s: data generation %s was adopted", phase, id)
	}
	if _, err := volume.Read("g1"); !errors.Is(err, generation.ErrIncomplete) {
		t.Errorf("%s: %v", phase, err)
	}
	f.phases = func(job.Progress) {}
}

func TestAnImportBringsAllAsItWasHoweverOftenItEndsEarlyAndWithoutASuperuserOfTheSource(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	f := newForeign(t)
	source := local.Server{SocketDir: f.SocketDir, Port: f.task.Import.Source.Port}
	fill(t, source)
	volume := generation.Volume(t.TempDir())
	for _, phase := range []string{"Copying", "BuildingIndexes", "Analyzing"} {
		f.endsIn(t, volume, phase)
	}
	if got := strings.Join(f.found.RolesWithoutPassword, ","); got != "ancient" {
		t.Errorf("these have no password: %s", got)
	}
	was := answers(t, source, "shop", told)
	if err := f.run(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	here := open(t, f.Major, volume.PGData("g1"))
	if got := answers(t, here, "shop", told); got != was {
		t.Errorf("got\n%s\n\nwant\n%s", got, was)
	}
	for query, want := range map[string]string{
		"SELECT string_agg(datname, ',' ORDER BY datname) FROM pg_database WHERE NOT datistemplate":                                           "odd = 'db,postgres,shop",
		"SELECT concat_ws(' ', to_regclass('public.scratch'), to_regclass('stale.old'), (SELECT count(*) FROM log))":                          "0",
		"SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolsuper":                                                                        "postgres",
		"SELECT string_agg(rolname, ',' ORDER BY rolname) FROM pg_authid WHERE rolpassword IS NULL AND rolcanlogin AND rolname <> 'postgres'": `Odd "role,ancient`,
		"SELECT (datacl IS NULL)::text FROM pg_database WHERE datname LIKE 'odd%'":                                                            "true",
		"SELECT count(*)::text FROM pg_subscription":                                                                                          "0",
		"SELECT (reltuples > 0)::text FROM pg_class WHERE oid = 'sales.parent'::regclass":                                                     "true",
	} {
		if got := answers(t, here, "shop", query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, words := range []string{"boss", "ancient", "subscriptions are not imported", "pub", "pg_read_server_files"} {
		if !strings.Contains(strings.Join(f.found.Warnings, "\n"), words) {
			t.Errorf("no warning has %q: %q", words, f.found.Warnings)
		}
	}
	if left := f.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'howdah%' OR application_name LIKE 'pg_dump%'"); left != "0" {
		t.Errorf("%s sessions are left on the source", left)
	}
}

func TestAnImportRefusesASourceThatItCannotRead(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	f := newForeign(t)
	f.SQL(`CREATE ROLE reader LOGIN PASSWORD 'p:a\s"s w''ord'`)
	f.SQL("CREATE DATABASE shop")
	f.SQLIn("shop", "CREATE TABLE closed (n int)")
	good := *f.task.Import
	for _, c := range []struct {
		change func(*agentapi.ImportJob)
		says   string
		final  bool
	}{
		{func(*agentapi.ImportJob) {}, "these can't be read: public.closed", true},
		{func(i *agentapi.ImportJob) { i.Source.Password = &agentapi.SecretKey{Secret: "none", Key: "password"} }, "Secret none with the key password", false},
		{func(i *agentapi.ImportJob) { i.Source.Host = strings.TrimSuffix(i.Source.Host, "1") + "2" }, "certificate", false},
		{func(i *agentapi.ImportJob) { i.Source.User = "nobody" }, "authentication failed", false},
	} {
		task := good
		task.Databases, task.Owner = nil, "reader"
		c.change(&task)
		f.task.Import = &task
		err := f.run(t.Context(), generation.Volume(t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), c.says) || isFinal(err) != c.final || strings.Contains(err.Error(), "p:a") {
			t.Errorf("want %q, final %t: %v, final %t", c.says, c.final, err, isFinal(err))
		}
	}
}
