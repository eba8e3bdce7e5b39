//go:build postgres

package roles

import (
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAPoolerLooksUpVerifiersOfClientsAndMayDoNothingElse(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQL(`CREATE ROLE plain LOGIN PASSWORD 'x'; CREATE ROLE super LOGIN SUPERUSER PASSWORD 'x'; CREATE ROLE stream LOGIN REPLICATION PASSWORD 'x';
			CREATE ROLE nologin PASSWORD 'x'; CREATE ROLE past LOGIN PASSWORD 'x' VALID UNTIL '2001-01-01'; CREATE ROLE empty LOGIN;
			CREATE ROLE howdah_other LOGIN PASSWORD 'x'; SET password_encryption = md5; CREATE ROLE weak LOGIN PASSWORD 'x'`)
		as := "SET SESSION AUTHORIZATION " + postgres.RolePooler + "; "
		for role, known := range map[string]bool{
			"app": true, "plain": true, "super": false, "stream": false, "nologin": false, "past": false, "empty": false, "howdah_other": false, "weak": false, "nobody": false,
		} {
			got := b.SQL(as + "SELECT rolname, rolpassword FROM " + postgres.PoolerLookup + "('" + role + "')")
			if known != strings.HasPrefix(got, role+"|SCRAM-SHA-256$") || !known && got != "" {
				t.Errorf("%s: %q", role, got)
			}
		}
		for _, statement := range []string{
			"SELECT rolpassword FROM pg_authid", "SELECT pg_read_file('PG_VERSION')", "CREATE TABLE t ()", "CREATE SCHEMA s",
			"CREATE FUNCTION " + postgres.RolePooler + ".lookup(int) RETURNS int LANGUAGE sql AS 'SELECT 1'", "SET ROLE app",
		} {
			b.SQL(as + "DO $x$ BEGIN EXECUTE $q$" + statement + "$q$; RAISE EXCEPTION 'this is allowed'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $x$")
		}
	})
}
