//go:build postgres

package roles

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestARoleHasTheAttributesAndParametersThatAreDeclaredAndKeepsOthers(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		attributes := "SELECT rolreplication, rolbypassrls FROM pg_roles WHERE rolname = 'r'"
		parameters := "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = 'r'::regrole AND setdatabase = 0 ORDER BY 1"
		plain := agentapi.Declared{Roles: []agentapi.Role{role("r", nil)}}
		declared := agentapi.Declared{Roles: []agentapi.Role{role("r", func(r *agentapi.Role) {
			r.Replication, r.BypassRLS = ptr.To(true), ptr.To(true)
			r.Parameters = map[string]string{"statement_timeout": "30s", "search_path": `"$user", sales, "a,b"`, "timezone": "Europe/Berlin", "my.own": "it's"}
		})}}
		if got := b.declare(plain, nil); got != "" {
			t.Fatal(got)
		}
		b.expect(attributes, "f|f")
		for range 2 {
			if got := b.declare(declared, nil); got != "" {
				t.Fatal(got)
			}
			b.expect(attributes, "t|t")
			b.SQL("ALTER ROLE r NOREPLICATION; ALTER ROLE r SET work_mem TO '1GB'; ALTER ROLE r RESET statement_timeout; ALTER ROLE r IN DATABASE shop SET work_mem TO '2MB'")
		}
		declared.Roles[0].Parameters = map[string]string{"statement_timeout": "30s", "search_path": `"$user", sales`, "timezone": "Europe/Berlin", "my.own": "it's"}
		if got := b.declare(declared, nil); got != "" {
			t.Fatal(got)
		}
		b.expect(parameters, "TimeZone=Europe/Berlin\nmy.own=it's\nsearch_path=\"$user\", sales\nstatement_timeout=30s")
		version := "SELECT xmin FROM pg_db_role_setting WHERE setrole = 'r'::regrole AND setdatabase = 0"
		before := b.SQL(version)
		if got := b.declare(declared, nil) + b.declare(plain, nil); got != "" || b.SQL(version) != before {
			t.Errorf("what is right was written again: %s", got)
		}
		b.expect(attributes, "t|t") // what isn't declared stays
		declared.Roles[0].Replication, declared.Roles[0].Parameters = ptr.To(false), map[string]string{"no_such_thing": "1"}
		if got := b.declare(declared, nil); !strings.Contains(got, "role r: unrecognized configuration parameter") {
			t.Error(got)
		}
		b.expect(attributes, "f|t")
	})
}

func TestADatabaseHasTheEncodingTheLocaleTheTemplateAndTheLimitThatAreDeclared(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{Databases: []agentapi.Database{
			{Name: "latin", Encoding: "LATIN1", LocaleProvider: "libc", Locale: "C", ConnectionLimit: ptr.To(7)},
			{Name: "german", LocaleProvider: "icu", Locale: "de-AT"},
			{Name: "copied", Template: "model"},
		}}
		b.SQL("CREATE DATABASE model")
		b.in("model", "CREATE TABLE t AS SELECT 42 AS n")
		for range 2 {
			if got := b.declare(declared, nil); got != "" {
				t.Fatal(got)
			}
			b.expect("SELECT pg_encoding_to_char(encoding), datcollate, datconnlimit FROM pg_database WHERE datname = 'latin'", "LATIN1|C|7")
			b.SQL("ALTER DATABASE latin CONNECTION LIMIT 1")
		}
		b.expect("SELECT datlocprovider FROM pg_database WHERE datname = 'german'", "i")
		if got := b.in("copied", "SELECT n FROM t"); strings.TrimSpace(got) != "42" {
			t.Error(got)
		}
		declared.Databases[0].Encoding = "UTF8"
		if got := b.declare(declared, nil); !strings.Contains(got, "database latin: its encoding is LATIN1 and can't be changed") {
			t.Error(got)
		}
	})
}

func TestARoleMayReadOrWriteWhatIsInASchemaAndWhatIsCreatedThereLater(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{
			Roles: []agentapi.Role{role("reader", nil), role("writer", nil), role("boss", nil)},
			Databases: []agentapi.Database{{Name: "shop", Schemas: []agentapi.Schema{
				{Name: "sales", Owner: "boss", Grants: []agentapi.SchemaGrant{{Role: "reader"}, {Role: "writer", Write: true}}}, {Name: "plain"},
			}}},
		}
		b.in("shop", "CREATE SCHEMA sales; CREATE TABLE sales.before (n serial)")
		for range 2 {
			if got := b.declare(declared, nil); got != "" {
				t.Fatal(got)
			}
		}
		b.in("shop", "SET ROLE boss; CREATE TABLE sales.after (n serial)")
		can := func(role, statement string) bool {
			return !strings.Contains(b.in("shop", "DO $$ BEGIN SET LOCAL ROLE "+role+"; "+statement+"; RAISE EXCEPTION USING ERRCODE = 'UE001'; EXCEPTION "+
				"WHEN insufficient_privilege THEN PERFORM set_config('my.denied', 'denied', false); WHEN SQLSTATE 'UE001' THEN NULL; END $$; "+
				"SELECT current_setting('my.denied', true)"), "denied")
		}
		for _, table := range []string{"before", "after"} {
			for _, c := range []struct {
				role, statement string
				can             bool
			}{
				{"reader", "PERFORM * FROM sales." + table, true}, {"reader", "INSERT INTO sales." + table + " VALUES (1)", false},
				{"writer", "PERFORM * FROM sales." + table, true}, {"writer", "INSERT INTO sales." + table + " DEFAULT VALUES", true},
				{"writer", "CREATE TABLE sales.x ()", false}, {"app", "PERFORM * FROM sales." + table, false},
			} {
				if got := can(c.role, c.statement); got != c.can {
					t.Errorf("%s may %s: %t", c.role, c.statement, got)
				}
			}
		}
		if got := strings.TrimSpace(b.in("shop", "SELECT string_agg(nspname || ' ' || nspowner::regrole, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname IN ('sales', 'plain')")); got != "plain app,sales boss" {
			t.Error(got)
		}
		versions := "SELECT (SELECT max(xmin::text::int8) FROM pg_namespace), (SELECT max(xmin::text::int8) FROM pg_default_acl), (SELECT max(xmin::text::int8) FROM pg_class)"
		before := b.in("shop", versions)
		if got := b.declare(declared, nil); got != "" || b.in("shop", versions) != before {
			t.Errorf("what is right was written again: %s", got)
		}
		declared.Databases[0].Schemas = []agentapi.Schema{{Name: "pg_toast"}, {Name: "howdah_x"}}
		if got := b.declare(declared, nil); strings.Count(got, "reserved by PostgreSQL or Howdah") != 2 {
			t.Error(got)
		}
	})
}

func TestAPublicationHasTheTablesThatAreDeclared(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.in("shop", "CREATE TABLE public.a (); CREATE TABLE public.b (); CREATE SCHEMA sales; CREATE TABLE sales.c ()")
		declare := func(publications ...agentapi.Publication) string {
			return b.declare(agentapi.Declared{Databases: []agentapi.Database{{Name: "shop", Publications: publications}}}, nil)
		}
		published := func() string {
			return strings.TrimSpace(b.in("shop", "SELECT string_agg(pubname || ' ' || schemaname || '.' || tablename, ',' ORDER BY schemaname, tablename) FROM pg_publication_tables"))
		}
		for _, c := range []struct {
			publication agentapi.Publication
			want        string
		}{
			{agentapi.Publication{Name: "cdc", Tables: []string{"public.b", "public.a"}}, "cdc public.a,cdc public.b"},
			{agentapi.Publication{Name: "cdc", Tables: []string{"public.b"}, Schemas: []string{"sales"}}, "cdc public.b,cdc sales.c"},
			{agentapi.Publication{Name: "cdc", Absent: true}, ""},
			{agentapi.Publication{Name: "cdc", AllTables: true}, "cdc public.a,cdc public.b,cdc sales.c"},
		} {
			for range 2 {
				if got := declare(c.publication); got != "" || published() != c.want {
					t.Errorf("%+v: %s, %s", c.publication, published(), got)
				}
			}
		}
		if got := declare(agentapi.Publication{Name: "cdc", Tables: []string{"public.a"}}); !strings.Contains(got, "publication cdc in database shop: PostgreSQL can't change") {
			t.Error(got)
		}
		if got := declare(agentapi.Publication{Name: "more", Tables: []string{"public.nowhere"}}); !strings.Contains(got, "does not exist") {
			t.Error(got)
		}
		if got := declare() + published(); got != "cdc public.a,cdc public.b,cdc sales.c" {
			t.Errorf("what isn't declared any more is gone: %s", got)
		}
	})
}
