//go:build postgres

package roles

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed is a server with the roles and the database that every cluster has.
type bed struct {
	*pgtest.Server
	t     *testing.T
	local local.Server
	major int
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	t.Helper()
	b := &bed{Server: pgtest.Start(t, pgtest.Options{Major: pg.Major, HBA: "local all postgres trust\nlocal all all scram-sha-256\n"}), t: t, major: pg.Major}
	b.local = local.Server{SocketDir: b.SocketDir, Port: 5432}
	if err := Ensure(t.Context(), b.local, Wanted{Major: pg.Major, Database: "shop", Owner: "app", Password: "app"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// declare returns the problems as one text.
func (b *bed) declare(declared agentapi.Declared, passwords map[string]string) string {
	b.t.Helper()
	problems, err := Declare(b.t.Context(), b.local, Desired{Declared: declared, Major: b.major, Database: "shop", Owner: "app", Passwords: passwords})
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(problems, "; ")
}

func (b *bed) expect(statement, want string) {
	b.t.Helper()
	if got := b.SQL(statement); got != want {
		b.t.Errorf("%s gives %q, want %q", statement, got, want)
	}
}

// login says whether a password lets a role in.
func (b *bed) login(role, password string) bool {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), "host="+b.SocketDir+" dbname=shop user="+role+" password="+password)
	if err == nil {
		conn.Close(context.Background())
	}
	return err == nil
}

// in is what psql says in another database.
func (b *bed) in(database, statement string) string {
	b.t.Helper()
	return b.SQLIn(database, statement)
}

func role(name string, change func(*agentapi.Role)) agentapi.Role {
	r := agentapi.Role{Name: name, Login: true, Inherit: true, ConnectionLimit: -1}
	if change != nil {
		change(&r)
	}
	return r
}

func TestARoleIsCreatedAsItIsDeclaredAndPutBackWhenItDrifts(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		until := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
		declared := agentapi.Declared{Roles: []agentapi.Role{
			role("member-of-group", func(r *agentapi.Role) {
				r.CreateDB, r.ConnectionLimit, r.ValidUntil, r.InRoles = true, 7, until, []string{"readers", "pg_monitor"}
			}),
			role("readers", func(r *agentapi.Role) { r.Login, r.Inherit = false, false }),
		}}
		for range 2 {
			if got := b.declare(declared, nil); got != "" {
				t.Fatal(got)
			}
			b.expect(`SELECT rolsuper, rolcanlogin, rolcreatedb, rolcreaterole, rolinherit, rolconnlimit, rolvaliduntil AT TIME ZONE 'UTC'
				FROM pg_roles WHERE rolname = 'member-of-group'`, "f|t|t|f|t|7|2031-02-03 04:05:06")
			b.expect("SELECT rolcanlogin, rolinherit, rolvaliduntil FROM pg_roles WHERE rolname = 'readers'", "f|f|infinity")
			b.expect(`SELECT string_agg(roleid::regrole::text, ',' ORDER BY roleid::regrole::text) FROM pg_auth_members WHERE member = '"member-of-group"'::regrole`, "pg_monitor,readers")
			b.SQL(`ALTER ROLE "member-of-group" NOCREATEDB CONNECTION LIMIT 1 VALID UNTIL 'infinity'; REVOKE readers FROM "member-of-group";
				GRANT pg_read_all_data TO "member-of-group"; ALTER ROLE readers LOGIN INHERIT`)
		}
	})
}

func TestNothingIsWrittenForWhatIsRightAlready(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{
			Roles:     []agentapi.Role{role("r", func(r *agentapi.Role) { r.Password, r.InRoles = true, []string{"pg_monitor"} })},
			Databases: []agentapi.Database{{Name: "d", Owner: "r", Extensions: []agentapi.Extension{{Name: "plpgsql"}}}},
		}
		versions := "SELECT (SELECT xmin FROM pg_authid WHERE rolname = 'r'), (SELECT xmin FROM pg_database WHERE datname = 'd'), (SELECT max(xmin::text) FROM pg_auth_members)"
		if got := b.declare(declared, map[string]string{"r": "secret"}); got != "" {
			t.Fatal(got)
		}
		before := b.SQL(versions)
		if got := b.declare(declared, map[string]string{"r": "secret"}); got != "" || b.SQL(versions) != before {
			t.Errorf("%s: %s, before %s", got, b.SQL(versions), before)
		}
	})
}

func TestAPasswordComesWhenItsSecretDoesAndChangesWithIt(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{Roles: []agentapi.Role{role("r", func(r *agentapi.Role) { r.Password = true })}}
		if got := b.declare(declared, nil); got != "role r: its password is not available from its Secret yet" {
			t.Error(got)
		}
		for _, password := range []string{"one", "two"} {
			if got := b.declare(declared, map[string]string{"r": password}); got != "" || !b.login("r", password) {
				t.Errorf("with password %s: %s", password, got)
			}
		}
		if b.login("r", "one") {
			t.Error("the old password still lets in")
		}
		declared.Roles[0].Password = false
		if got := b.declare(declared, nil); got != "" || !b.login("r", "two") {
			t.Errorf("a password that nobody declares is gone: %s", got)
		}
		declared.Roles[0].Password, declared.Roles[0].Login = true, false
		if got := b.declare(declared, map[string]string{"r": "three"}); got != "" || b.login("r", "three") {
			t.Errorf("a role that may not log in does: %s", got)
		}
		if log := b.Log(); strings.Contains(log, "SCRAM-SHA-256$") {
			t.Error("the log has a verifier")
		}
	})
}

func TestWhatIsNotForPeopleIsLeftAlone(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQL("CREATE ROLE chief SUPERUSER; CREATE ROLE group_of_chiefs SUPERUSER NOLOGIN")
		for name, test := range map[string]struct {
			declared agentapi.Declared
			want     string
		}{
			"postgres":           {agentapi.Declared{Roles: []agentapi.Role{role("postgres", nil)}}, "role postgres: the name is reserved by PostgreSQL or Howdah"},
			"a role of Howdah's": {agentapi.Declared{Roles: []agentapi.Role{role("howdah_backup", func(r *agentapi.Role) { r.Absent = true })}}, "role howdah_backup: the name is"},
			"a superuser":        {agentapi.Declared{Roles: []agentapi.Role{role("chief", nil)}}, "role chief: it is a superuser"},
			"a superuser's end":  {agentapi.Declared{Roles: []agentapi.Role{role("chief", func(r *agentapi.Role) { r.Absent = true })}}, "role chief: it is a superuser"},
			"the owner's end":    {agentapi.Declared{Roles: []agentapi.Role{role("app", func(r *agentapi.Role) { r.Absent = true })}}, "role app: it is"},
			"a superuser's power": {agentapi.Declared{Roles: []agentapi.Role{role("r", func(r *agentapi.Role) { r.InRoles = []string{"group_of_chiefs"} })}},
				"role r: role group_of_chiefs has the power of a superuser"},
			"the server's files": {agentapi.Declared{Roles: []agentapi.Role{role("r", func(r *agentapi.Role) { r.InRoles = []string{"pg_write_server_files"} })}},
				"role r: role pg_write_server_files has the power"},
			"Howdah's power": {agentapi.Declared{Roles: []agentapi.Role{role("r", func(r *agentapi.Role) { r.InRoles = []string{"howdah_upgrade"} })}}, "or is Howdah's own"},
			"template1":      {agentapi.Declared{Databases: []agentapi.Database{{Name: "template1", Absent: true}}}, "database template1: it belongs to PostgreSQL itself"},
			"the application's database": {agentapi.Declared{Databases: []agentapi.Database{{Name: "shop", Absent: true}}},
				"database shop: it is the application's"},
		} {
			if got := b.declare(test.declared, nil); !strings.Contains(got, test.want) {
				t.Errorf("%s: %q", name, got)
			}
		}
		b.expect("SELECT count(*) FROM pg_roles WHERE rolname IN ('postgres', 'howdah_backup', 'chief', 'app')", "4")
		b.expect("SELECT rolsuper, rolcanlogin FROM pg_roles WHERE rolname = 'chief'", "t|f")
		b.expect("SELECT count(*) FROM pg_database WHERE datname = 'shop'", "1")
	})
}

func TestWhatOthersHaveGrantedStays(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQL(`CREATE ROLE team NOLOGIN; CREATE ROLE r; GRANT team TO app WITH ADMIN OPTION; GRANT pg_monitor TO r WITH ADMIN OPTION`)
		b.SQL("SET ROLE app; GRANT team TO r")
		if got := b.declare(agentapi.Declared{Roles: []agentapi.Role{role("r", nil)}}, nil); got != "" {
			t.Error(got)
		}
		b.expect("SELECT count(*) FROM pg_auth_members WHERE member = 'r'::regrole", "2")
	})
}

func TestADatabaseHasItsOwnerAndItsExtensions(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{
			Roles: []agentapi.Role{role("clerk", nil), role("boss", nil)},
			Databases: []agentapi.Database{
				{Name: "or-ders", Owner: "clerk", Extensions: []agentapi.Extension{
					{Name: "pg_trgm", Version: "1.5"}, {Name: "hstore", Schema: "tools"}, {Name: "earthdistance"}, {Name: "nowhere"},
				}},
				{Name: "shop", Extensions: []agentapi.Extension{{Name: "pg_trgm"}}},
				{Name: "plain"},
			},
		}
		for range 2 {
			if got := b.declare(declared, nil); !strings.HasPrefix(got, "extension nowhere in database or-ders: ") || strings.Contains(got, ";") {
				t.Error(got)
			}
		}
		list := "SELECT string_agg(extname || ' ' || extnamespace::regnamespace, ',' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'"
		if got := b.in("or-ders", list); strings.TrimSpace(got) != "cube extensions,earthdistance extensions,hstore tools,pg_trgm public" {
			t.Error(got)
		}
		if got := b.in("shop", list); strings.TrimSpace(got) != "pg_trgm public" {
			t.Error(got)
		}
		b.expect("SELECT string_agg(datname || ' ' || datdba::regrole, ',' ORDER BY datname) FROM pg_database WHERE datname IN ('or-ders', 'plain', 'shop')", "or-ders clerk,plain app,shop app")

		declared.Databases[0].Owner = "boss"
		declared.Databases[0].Extensions = []agentapi.Extension{{Name: "pg_trgm", Version: "1.6", Schema: "tools"}}
		if got := b.declare(declared, nil); got != "" {
			t.Error(got)
		}
		if got := b.in("or-ders", "SELECT extversion, extnamespace::regnamespace FROM pg_extension WHERE extname = 'pg_trgm'"); strings.TrimSpace(got) != "1.6|tools" {
			t.Error(got)
		}
		b.expect("SELECT datdba::regrole FROM pg_database WHERE datname = 'or-ders'", "boss")
	})
}

// TestAnUntrustedExtensionGoesWhereNobodyElseCanPutAnything: its scripts run as superuser, and would call what a tenant has put there.
func TestAnUntrustedExtensionGoesWhereNobodyElseCanPutAnything(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declare := func(extension agentapi.Extension) string {
			return b.declare(agentapi.Declared{Databases: []agentapi.Database{{Name: "shop", Extensions: []agentapi.Extension{extension}}}}, nil)
		}
		schema := func(extension string) string {
			return strings.TrimSpace(b.in("shop", "SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = '"+extension+"'"))
		}
		b.in("shop", "CREATE SCHEMA theirs AUTHORIZATION app; CREATE SCHEMA open; GRANT CREATE ON SCHEMA open TO app; "+
			"CREATE SCHEMA used; CREATE FUNCTION used.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION used.f() OWNER TO app; CREATE SCHEMA ours")
		for _, unsafe := range []string{"theirs", "open", "used"} {
			if got := declare(agentapi.Extension{Name: "pageinspect", Schema: unsafe}); !strings.Contains(got, "app has put or can put into schema "+unsafe) {
				t.Errorf("in schema %s: %q", unsafe, got)
			}
			if got := schema("pageinspect"); got != "" {
				t.Errorf("it is in schema %s", got)
			}
		}
		for _, c := range []struct {
			extension agentapi.Extension
			in        string
		}{
			{agentapi.Extension{Name: "pageinspect"}, "extensions"}, {agentapi.Extension{Name: "pg_buffercache", Schema: "ours"}, "ours"},
			{agentapi.Extension{Name: "amcheck", Schema: "new"}, "new"}, {agentapi.Extension{Name: "hstore", Schema: "theirs"}, "theirs"},
		} {
			for range 2 {
				if got := declare(c.extension); got != "" {
					t.Errorf("%s: %s", c.extension.Name, got)
				}
			}
			if got := schema(c.extension.Name); got != c.in {
				t.Errorf("%s is in schema %q, want %q", c.extension.Name, got, c.in)
			}
		}
		if got := declare(agentapi.Extension{Name: "pageinspect", Schema: "theirs"}); !strings.Contains(got, "schema theirs") || schema("pageinspect") != "extensions" {
			t.Errorf("moved to a schema of a tenant: %q", got)
		}
		if got := strings.TrimSpace(b.in("shop", "SELECT has_schema_privilege('app', 'extensions', 'USAGE'), has_schema_privilege('app', 'extensions', 'CREATE')")); got != "t|f" {
			t.Errorf("app may use it, and create in it: %s", got)
		}
		// A tenant that has the default name first.
		b.in("shop", "DROP EXTENSION pageinspect; ALTER SCHEMA extensions OWNER TO app")
		if got := declare(agentapi.Extension{Name: "pageinspect"}); !strings.Contains(got, "schema extensions") || schema("pageinspect") != "" {
			t.Errorf("in a tenant's schema of the default name: %q", got)
		}
	})
}

func TestOnlyWhatIsAbsentByNameAndFreeIsDropped(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		declared := agentapi.Declared{
			Roles: []agentapi.Role{role("r", nil), role("owner-of-table", nil)}, Databases: []agentapi.Database{{Name: "d", Owner: "r"}},
		}
		if got := b.declare(declared, nil) + b.declare(agentapi.Declared{}, nil); got != "" {
			t.Fatal(got)
		}
		b.expect("SELECT count(*) FROM pg_database WHERE datname = 'd'", "1")
		b.SQL(`CREATE TABLE t (); ALTER TABLE t OWNER TO "owner-of-table"`)

		user, err := pgx.Connect(t.Context(), "host="+b.SocketDir+" dbname=d user=postgres")
		if err != nil {
			t.Fatal(err)
		}
		gone := agentapi.Declared{
			Roles:     []agentapi.Role{role("r", func(r *agentapi.Role) { r.Absent = true }), role("owner-of-table", func(r *agentapi.Role) { r.Absent = true })},
			Databases: []agentapi.Database{{Name: "d", Absent: true}, {Name: "never-there", Absent: true}},
		}
		got := b.declare(gone, nil)
		for _, want := range []string{"database d: database \"d\" is being accessed by other users", "role r: role \"r\" cannot be dropped", "role owner-of-table: ", "REASSIGN OWNED"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		user.Close(context.Background())
		gone.Roles = gone.Roles[:1]
		for range 2 {
			if got := b.declare(gone, nil); got != "" {
				t.Error(got)
			}
		}
		b.expect("SELECT count(*) FROM pg_roles WHERE rolname = 'r'", "0")
	})
}
