//go:build postgres

package roles

import (
	"testing"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestTheRoleOfAFailoverDrillHasItsSchemaAndGoesWithIt(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		const role = postgres.RoleFailoverDrill
		ensure := func(drill bool) error {
			return Ensure(t.Context(), b.local, Wanted{Major: pg.Major, Database: "shop", Owner: "app", Password: "app", FailoverDrill: drill})
		}
		const left = "SELECT (SELECT count(*) FROM pg_roles WHERE rolname = '" + role + "') + (SELECT count(*) FROM pg_namespace WHERE nspname = '" + role + "')"
		for range 2 { // said twice it does nothing
			if err := ensure(true); err != nil {
				t.Fatal(err)
			}
		}
		as := "SET SESSION AUTHORIZATION " + role + "; "
		b.SQL(as + "CREATE TABLE " + role + ".acknowledged (n int); INSERT INTO " + role + ".acknowledged VALUES (1)")
		for _, statement := range []string{
			"SELECT rolpassword FROM pg_authid", "SELECT pg_read_file('PG_VERSION')", "CREATE SCHEMA s", "SET ROLE app", "SELECT pg_switch_wal()",
		} {
			b.SQL(as + "DO $x$ BEGIN EXECUTE $q$" + statement + "$q$; RAISE EXCEPTION 'this is allowed'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $x$")
		}
		for range 2 {
			if err := ensure(false); err != nil {
				t.Fatal(err)
			}
			b.expect(left, "0")
		}
		// A schema of that name that somebody else has is not touched.
		b.SQL("CREATE SCHEMA " + role + "; CREATE TABLE " + role + ".mine ()")
		if err := ensure(true); err == nil {
			t.Error("a drill would write to the schema of another role")
		}
		if err := ensure(false); err != nil {
			t.Error(err)
		}
		b.expect("SELECT count(*) FROM "+role+".mine", "0")
	})
}
