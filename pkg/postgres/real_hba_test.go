//go:build postgres

package postgres_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestWhoMayConnectHow(t *testing.T) {
	const password = "pencil"
	servers := map[bool]*tlsServer{false: startHBAServer(t, false), true: startHBAServer(t, true)}
	for _, c := range []struct {
		says, role, tls, cert, password, database string
		superuser, replication, want              bool
	}{
		{says: "the application with its password over TLS", role: "app", tls: "require", password: password, want: true},
		{says: "the application with a wrong password", role: "app", tls: "require", password: "x"},
		{says: "the application without TLS", role: "app", tls: "disable", password: password},
		{says: "the application with somebody's certificate", role: "app", tls: "require", cert: "howdah_backup"},
		{says: "the backup role with its certificate", role: "howdah_backup", tls: "require", cert: "howdah_backup", want: true},
		{says: "the backup role with another's certificate", role: "howdah_backup", tls: "require", cert: "howdah_upgrade"},
		{says: "the backup role with a password only", role: "howdah_backup", tls: "require", password: password},
		{says: "the backup role without TLS, which a person's rule can't allow", role: "howdah_backup", tls: "disable", password: password},
		{says: "the upgrade role with its certificate", role: "howdah_upgrade", tls: "require", cert: "howdah_upgrade", want: true},
		{says: "the replication role with its certificate", role: "howdah_replication", tls: "require", cert: "howdah_replication", want: true},
		{says: "the replication role as a replica", role: "howdah_replication", tls: "require", cert: "howdah_replication", replication: true, want: true},
		{says: "the replication role in the application's database", role: "howdah_replication", tls: "require", cert: "howdah_replication", database: "template1"},
		{says: "the replication role with a password only", role: "howdah_replication", tls: "require", password: password},
		{says: "the replication role with a password only, as a replica", role: "howdah_replication", tls: "require", password: password, replication: true},
		{says: "the replication role with another's certificate", role: "howdah_replication", tls: "require", cert: "howdah_backup", replication: true},
		{says: "the backup role as a replica", role: "howdah_backup", tls: "require", cert: "howdah_backup", replication: true},
		{says: "the role of queries for metrics with a password", role: "howdah_monitor", tls: "require", password: password},
		{says: "the role of queries for metrics with a certificate", role: "howdah_monitor", tls: "require", cert: "howdah_monitor"},
		{says: "the superuser from outside", role: "postgres", tls: "require", password: password},
		{says: "the superuser from outside where it is asked for", role: "postgres", tls: "require", password: password, superuser: true, want: true},
		{says: "the superuser from outside without TLS", role: "postgres", tls: "disable", password: password, superuser: true},
	} {
		t.Run(c.says, func(t *testing.T) {
			s := servers[c.superuser]
			dsn := fmt.Sprintf("host=127.0.0.1 port=%s dbname=%s user=%s sslmode=%s replication=%v connect_timeout=10",
				s.port, cmp.Or(c.database, "postgres"), c.role, c.tls, c.replication)
			if c.cert != "" {
				dsn += fmt.Sprintf(" sslcert=%[1]s/%[2]s/tls.crt sslkey=%[1]s/%[2]s/tls.key", s.certificates, c.cert)
			}
			cmd := s.Command(t.Context(), t, "psql", "--no-psqlrc", "--no-password", "--dbname="+dsn, "--command="+map[bool]string{false: "SELECT 1", true: "IDENTIFY_SYSTEM"}[c.replication])
			cmd.Env = append(cmd.Env, "PGPASSWORD="+c.password)
			if out, err := cmd.CombinedOutput(); (err == nil) != c.want {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

type tlsServer struct {
	*pgtest.Server
	certificates string // a folder for each common name
	port         string
}

func startHBAServer(t *testing.T, superuser bool) *tlsServer {
	t.Helper()
	hba, err := postgres.RenderHBA(postgres.HBA{
		SuperuserAccess: superuser,
		Rules:           []string{`hostssl "my db",shop +readers 10.0.0.0/8 cert clientcert=verify-full`, "hostssl other app .example.com scram-sha-256"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ca, certificates, port := authority.New(t), pgtest.Dir(t), strconv.Itoa(pgtest.Port(t))
	ident := writeIdent(t)
	for _, name := range []string{"server", postgres.RoleBackup, postgres.RoleUpgrade, postgres.RoleReplication, postgres.RoleMonitor} {
		ca.Fill(t, filepath.Join(certificates, name), name)
	}
	pgtest.Own(t, certificates)
	s := pgtest.Start(t, pgtest.Options{
		HBA: "local all postgres trust\n" + hba,
		Params: map[string]string{
			"listen_addresses": "127.0.0.1", "port": port, "ident_file": ident, "ssl": "on", "ssl_ca_file": certificates + "/server/ca.crt",
			"ssl_cert_file": certificates + "/server/tls.crt", "ssl_key_file": certificates + "/server/tls.key",
		},
	})
	admin := func(sql string) {
		s.Run(t, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+s.DSN()+" port="+port, "--command="+sql)
	}
	admin("CREATE ROLE app LOGIN PASSWORD 'pencil'")
	admin("CREATE ROLE howdah_backup LOGIN PASSWORD 'pencil'")
	admin("CREATE ROLE howdah_upgrade LOGIN")
	admin("CREATE ROLE howdah_replication LOGIN REPLICATION PASSWORD 'pencil'")
	admin("CREATE ROLE howdah_monitor LOGIN PASSWORD 'pencil'")
	admin("ALTER ROLE howdah_backup REPLICATION")
	admin("ALTER ROLE postgres PASSWORD 'pencil'")
	out := s.Run(t, "psql", "--no-psqlrc", "--no-align", "--tuples-only", "--dbname="+s.DSN()+" port="+port,
		"--command=SELECT line_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL")
	if strings.TrimSpace(out) != "" {
		t.Errorf("pg_hba.conf: %s", out)
	}
	return &tlsServer{Server: s, certificates: certificates, port: port}
}

// writeIdent writes pg_ident.conf, and says where.
func writeIdent(t *testing.T) string {
	t.Helper()
	maps, err := postgres.RenderIdent(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(pgtest.Dir(t), "pg_ident.conf")
	if err := os.WriteFile(file, []byte(maps), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheAgentsUserComesOverTheSocketAsTheRoleOfQueriesForMetrics(t *testing.T) {
	hba, err := postgres.RenderHBA(postgres.HBA{})
	if err != nil {
		t.Fatal(err)
	}
	ident := writeIdent(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		s := pgtest.Start(t, pgtest.Options{Major: pg.Major, HBA: hba, Params: map[string]string{"ident_file": ident}})
		as := func(role, sql string) (string, error) {
			out, err := s.Command(t.Context(), t, "psql", "-XAtw", "--dbname=host="+s.SocketDir+" dbname=template1 user="+role, "--command="+sql).CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
		if got, err := as("postgres", "CREATE ROLE howdah_monitor LOGIN; CREATE ROLE howdah_backup LOGIN"); err != nil {
			t.Fatalf("%s %v", got, err)
		}
		if got, err := as(postgres.RoleMonitor, "SELECT session_user"); err != nil || got != postgres.RoleMonitor {
			t.Errorf("%s %v", got, err)
		}
		if got, err := as(postgres.RoleMonitor, "SET SESSION AUTHORIZATION postgres"); err == nil {
			t.Errorf("it becomes the superuser: %s", got)
		}
		if got, err := as(postgres.RoleBackup, "SELECT 1"); err == nil {
			t.Errorf("other roles come over the socket: %s", got)
		}
	})
}
