package importjob

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

// fine is a source against which nothing stands, and a cluster that it fits on.
func fine() (*Inventory, agentapi.ImportJob, target) {
	inv := &Inventory{
		Major: 15, Version: "15.18", Passwords: true, Superuser: false,
		Roles: []Role{{Name: "clerk", Login: true, Password: "SCRAM-SHA-256$4096:x"}, {Name: "postgres", Superuser: true, Login: true}},
		Databases: []Database{{Name: "shop", Owner: "clerk", Connectable: true, Extensions: []string{"pg_trgm"}, schemas: []string{"public"},
			Tables: []Table{{Schema: "public", Name: "a", Kind: kindTable, Bytes: 1 << 30, TotalBytes: 2 << 30, Readable: true}}}},
	}
	return inv, agentapi.ImportJob{Database: "shop", Owner: "clerk"}, target{Major: 17, Free: 10 << 30, Extensions: []string{"pg_trgm"}, Collations: []string{"C", "en_US.utf8"}}
}

func TestWhatStandsAgainstAnImportIsSaidWithWhatToDo(t *testing.T) {
	inv, task, here := fine()
	if v := judge(inv, task, here); len(v.Refusals) > 0 || len(v.Warnings) > 0 {
		t.Fatalf("%+v", v)
	}
	type change = func(*Inventory, *agentapi.ImportJob, *target)
	shop := func(edit func(*Database)) change {
		return func(inv *Inventory, _ *agentapi.ImportJob, _ *target) { edit(&inv.Databases[0]) }
	}
	for says, edit := range map[string]change{
		"newer than the cluster": func(inv *Inventory, _ *agentapi.ImportJob, _ *target) { inv.Major = 18 },
		"10 is the oldest":       func(inv *Inventory, _ *agentapi.ImportJob, _ *target) { inv.Major = 9 },
		"no database nope":       func(_ *Inventory, task *agentapi.ImportJob, _ *target) { task.Database = "nope" },
		"no database lost": func(_ *Inventory, task *agentapi.ImportJob, _ *target) {
			task.Databases = []agentapi.ImportDatabase{{Name: "shop"}, {Name: "lost"}}
		},
		"as, such as clerk":                           func(_ *Inventory, task *agentapi.ImportJob, _ *target) { task.Owner = "nope" },
		"can't connect to database shop":              shop(func(d *Database) { d.Connectable = false }),
		"public.a; grant":                             shop(func(d *Database) { d.Tables[0].Readable = false }),
		"give it BYPASSRLS":                           shop(func(d *Database) { d.Tables[0].RowSecurity = true }),
		"3 large objects":                             shop(func(d *Database) { d.HiddenLargeObjects = 3 }),
		"extensions that the image doesn't have: aws": shop(func(d *Database) { d.Extensions = append(d.Extensions, "aws") }),
		"locales that the image doesn't have: de_DE":  shop(func(d *Database) { d.Collations = []Collation{{Name: "de_DE", System: true}} }),
		"locales that the image doesn't have: mine": func(inv *Inventory, _ *agentapi.ImportJob, here *target) {
			inv.Databases[0].Collations = []Collation{{Name: "mine"}}
			here.Missing = []string{"shop.mine"}
		},
		"has 3.0 GiB left: set spec.storage.size of a new PostgresCluster to 7Gi": func(_ *Inventory, _ *agentapi.ImportJob, here *target) { here.Free = 3 << 30 },
		"has no table public.b": func(inv *Inventory, task *agentapi.ImportJob, _ *target) {
			inv.Databases[0] = inv.Databases[0].without(nil, nil, nil)
			task.Databases = []agentapi.ImportDatabase{{Name: "shop", ExcludeTables: []string{"public.b"}}}
		},
		"has no schema stale": func(_ *Inventory, task *agentapi.ImportJob, _ *target) {
			task.Databases = []agentapi.ImportDatabase{{Name: "shop", ExcludeSchemas: []string{"stale"}}}
		},
	} {
		inv, task, here := fine()
		edit(inv, &task, &here)
		v := judge(inv, task, here)
		if len(v.Refusals) != 1 || !strings.Contains(v.Refusals[0], says) || !strings.HasSuffix(v.Refusals[0], ".") {
			t.Errorf("%s: %q", says, v.Refusals)
		}
	}
}

func TestWhatComesOverOtherwiseIsSaid(t *testing.T) {
	inv, task, here := fine()
	inv.Passwords = false
	inv.Roles = append(inv.Roles, Role{Name: "boss", Superuser: true, Login: true}, Role{Name: "group"}, Role{Name: "howdah_backup", Login: true})
	inv.Roles[0].Password = ""
	inv.Roles[1].Superuser = false
	inv.Memberships = []Membership{{Group: "pg_execute_server_program", Member: "boss"}}
	d := &inv.Databases[0]
	d.Tablespaces, d.Subscriptions, d.Publications, d.UserMappings = []string{"fast"}, []string{"sub"}, []string{"pub"}, 1
	v := judge(inv, task, here)
	all := strings.Join(v.Warnings, "\n")
	for _, says := range []string{"without SUPERUSER: boss", "Role boss is no longer a member of pg_execute", "MD5: clerk, boss", "postgres is not a superuser", "fast", "sub", "pub", "user mappings"} {
		if !strings.Contains(all, says) {
			t.Errorf("nothing says %q:\n%s", says, all)
		}
	}
	if len(v.Refusals) > 0 {
		t.Errorf("%q", v.Refusals)
	}
}

func TestWhatStaysBehindIsNeitherCopiedNorCounted(t *testing.T) {
	d := Database{LargeObjectBytes: 1, Tables: []Table{
		{Schema: "a", Name: "x", Kind: kindTable, Bytes: 10, TotalBytes: 20}, {Schema: "b", Name: "x", Kind: kindTable, Bytes: 100, TotalBytes: 200},
		{Schema: "b", Name: "y", Kind: kindTable, Bytes: 1000, TotalBytes: 2000, RowSecurity: true}, {Schema: "b", Name: "z", Kind: kindTable, Bytes: 5000, TotalBytes: 5000},
	}}
	left := d.without([]string{"a"}, []string{"b.x"}, []string{"b.y"})
	if left.dataBytes() != 5001 || left.totalBytes() != 5001 || len(left.Tables) != 2 || left.Tables[0].RowSecurity || len(left.all) != 4 {
		t.Errorf("%+v", left)
	}
	if large := d.large(100); len(large) != 3 || large[0].Name != "z" || large[2].String() != "b.x" {
		t.Errorf("%+v", large)
	}
	w := Worker{Task: agentapi.ImportJob{Connections: 2}, LargeTable: 1000}
	streams := w.streams(d, []string{"--common"})
	if len(streams) != 3 || streams[0].bytes != 5000 || streams[2].bytes != 111 || !slices.Contains(streams[2].args, `--exclude-table-data="b"."z"`) || !slices.Contains(streams[0].args, `--table="b"."z"`) {
		t.Errorf("%+v", streams)
	}
	if w.Task.Connections = 1; len(w.streams(d, nil)) != 1 {
		t.Error("one connection copies two parts")
	}
}

func TestRightsOfAProviderInPostgreSQLItselfAndUnwantedExtensionsStayBehind(t *testing.T) {
	w := Worker{Task: agentapi.ImportJob{ExcludeExtensions: []string{"aws_s3"}}}
	for line, want := range map[string]bool{
		"2; 3079 16385 EXTENSION - aws_s3 ":                       true,
		"3; 0 0 COMMENT - EXTENSION aws_s3 ":                      true,
		"3; 0 0 COMMENT - EXTENSION aws_s3_more ":                 false,
		"9; 0 0 ACL pg_catalog FUNCTION pg_switch_wal() postgres": true,
		"215; 1259 16400 TABLE public aws_s3 owner":               false,
		"10; 0 0 ACL public TABLE pg_catalog owner":               false,
		"2; 3079 16385 EXTENSION - pg_trgm ":                      false,
	} {
		if got := w.staysBehind(line); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}

func TestARoleComesAsItWasButForThePowersOfASuperuser(t *testing.T) {
	r := Role{Name: `a"b`, Superuser: true, Inherit: true, Login: true, Limit: -1, Password: "SCRAM-SHA-256$x", ValidUntil: "infinity", Comment: `it's \ `}
	want := []string{
		`CREATE ROLE "a""b" INHERIT NOCREATEROLE NOCREATEDB LOGIN NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 PASSWORD 'SCRAM-SHA-256$x' VALID UNTIL 'infinity'`,
		`COMMENT ON ROLE "a""b" IS  E'it''s \\ '`,
	}
	if got := createRole(r); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if r.Password = "md5abc"; strings.Contains(createRole(r)[0], "PASSWORD") {
		t.Error("an MD5 verifier, with which nobody can log in here")
	}
	for _, m := range []Membership{{Group: "postgres", Member: "x"}, {Group: "pg_write_server_files", Member: "x"}, {Group: "x", Member: "postgres"}, {Group: "x", Member: "howdah_backup"}} {
		if got := grantMembership(m, 17, 17); got != "" {
			t.Error(got)
		}
	}
	if got := grantMembership(Membership{Group: "g", Member: "m", Admin: true, Set: true}, 16, 17); got != `GRANT "g" TO "m" WITH ADMIN true, INHERIT false, SET true` {
		t.Error(got)
	}
	if got := grantMembership(Membership{Group: "g", Member: "m", Admin: true}, 15, 17); got != `GRANT "g" TO "m" WITH ADMIN OPTION` {
		t.Error(got)
	}
}

func TestADatabaseGetsTheLocaleThatItHadUnlessTheClustersIsWanted(t *testing.T) {
	d := Database{Name: "d", Owner: "o", Encoding: "UTF8", Collate: "C", Ctype: "de_AT.utf8", Provider: "i", Locale: "de", Rules: "&a < b"}
	if got := createDatabase(d, false)[0]; got != `CREATE DATABASE "d" TEMPLATE template0 OWNER "o" ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'de_AT.utf8' LOCALE_PROVIDER icu ICU_LOCALE 'de' ICU_RULES '&a < b'` {
		t.Error(got)
	}
	if got := createDatabase(d, true)[0]; got != `CREATE DATABASE "d" TEMPLATE template0 OWNER "o"` {
		t.Error(got)
	}
	if d.Provider, d.Locale = "b", "C.UTF-8"; !strings.HasSuffix(createDatabase(d, false)[0], "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'") {
		t.Error(createDatabase(d, false))
	}
	if got := openDatabase(Database{Name: "d", Owner: "o", Limit: -1, ACL: []Grant{}}); len(got) > 0 {
		t.Errorf("nobody has changed who may connect: %q", got)
	}
	d.OwnACL, d.Limit, d.ACL = true, 5, []Grant{{Role: "", Right: "CONNECT"}, {Role: "x", Right: "CREATE; DROP", Option: true}, {Role: "x", Right: "CREATE", Option: true}}
	want := []string{`ALTER DATABASE "d" CONNECTION LIMIT 5`, `REVOKE ALL ON DATABASE "d" FROM PUBLIC, "o"`, `GRANT CONNECT ON DATABASE "d" TO PUBLIC`, `GRANT CREATE ON DATABASE "d" TO "x" WITH GRANT OPTION`}
	if got := openDatabase(d); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
