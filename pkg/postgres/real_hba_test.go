//go:build postgres

package postgres_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// authority signs certificates for one test.
type authority struct {
	dir  string // ca.crt, NAME.crt and NAME.key lie here
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: pgtest.Dir(t)}
	a.cert, a.key = a.issue(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) issue(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.save(t, name+".crt", "CERTIFICATE", der)
	a.save(t, name+".key", "PRIVATE KEY", keyDER)
	return cert, key
}

func (a *authority) save(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	pgtest.Own(t, path)
}

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
		{says: "the superuser from outside", role: "postgres", tls: "require", password: password},
		{says: "the superuser from outside where it is asked for", role: "postgres", tls: "require", password: password, superuser: true, want: true},
		{says: "the superuser from outside without TLS", role: "postgres", tls: "disable", password: password, superuser: true},
	} {
		t.Run(c.says, func(t *testing.T) {
			s := servers[c.superuser]
			dsn := fmt.Sprintf("host=127.0.0.1 port=%s dbname=%s user=%s sslmode=%s replication=%v connect_timeout=10",
				s.port, cmp.Or(c.database, "postgres"), c.role, c.tls, c.replication)
			if c.cert != "" {
				dsn += fmt.Sprintf(" sslcert=%[1]s/%[2]s.crt sslkey=%[1]s/%[2]s.key", s.ca.dir, c.cert)
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
	ca   *authority
	port string
}

func startHBAServer(t *testing.T, superuser bool) *tlsServer {
	t.Helper()
	hba, err := postgres.RenderHBA(postgres.HBA{
		SuperuserAccess: superuser,
		Rules:           []string{`hostssl "my db",shop +readers 10.0.0.0/8 cert map=m`, "hostssl other app .example.com scram-sha-256"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ca, port := newAuthority(t), strconv.Itoa(pgtest.Port(t))
	for _, name := range []string{"server", postgres.RoleBackup, postgres.RoleUpgrade, postgres.RoleReplication} {
		ca.issue(t, name, &x509.Certificate{})
	}
	s := pgtest.Start(t, pgtest.Options{
		HBA: "local all postgres trust\n" + hba,
		Params: map[string]string{
			"listen_addresses": "127.0.0.1", "port": port, "ssl": "on", "ssl_ca_file": ca.dir + "/ca.crt",
			"ssl_cert_file": ca.dir + "/server.crt", "ssl_key_file": ca.dir + "/server.key",
		},
	})
	admin := func(sql string) {
		s.Run(t, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+s.DSN()+" port="+port, "--command="+sql)
	}
	admin("CREATE ROLE app LOGIN PASSWORD 'pencil'")
	admin("CREATE ROLE howdah_backup LOGIN PASSWORD 'pencil'")
	admin("CREATE ROLE howdah_upgrade LOGIN")
	admin("CREATE ROLE howdah_replication LOGIN REPLICATION PASSWORD 'pencil'")
	admin("ALTER ROLE howdah_backup REPLICATION")
	admin("ALTER ROLE postgres PASSWORD 'pencil'")
	out := s.Run(t, "psql", "--no-psqlrc", "--no-align", "--tuples-only", "--dbname="+s.DSN()+" port="+port,
		"--command=SELECT line_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL")
	if strings.TrimSpace(out) != "" {
		t.Errorf("pg_hba.conf: %s", out)
	}
	return &tlsServer{Server: s, ca: ca, port: port}
}
