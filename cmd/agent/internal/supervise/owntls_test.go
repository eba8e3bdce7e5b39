//go:build postgres

package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
)

// company is a CA that a person has, and what it fills into a Secret.
type company struct {
	*authority.Authority
	dir string
}

func newCompany(t *testing.T) *company {
	t.Helper()
	return &company{authority.New(t), t.TempDir()}
}

// issue a certificate for the pod's server, as cert-manager would.
func (c *company) issue(t *testing.T, name string, hosts ...string) (certificate, key, ca []byte) {
	t.Helper()
	c.Fill(t, c.dir, name, hosts...)
	files := make([][]byte, 3)
	for i, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[i] = content
	}
	return files[0], files[1], files[2]
}

// brings writes RolesFile as the db-controller does.
func (p *pod) brings(all agentapi.Passwords) {
	p.t.Helper()
	content, err := json.Marshal(all)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(p.RolesFile, string(content))
}

// psql runs libpq's client, as an application would with its URI.
func (p *pod) psql(uri string) (string, error) {
	binDir, err := postgres.BinDir(p.t.Context(), postgres.Exec, p.config.MajorVersion)
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := exec.CommandContext(p.t.Context(), filepath.Join(binDir, "psql"), "-XAtc", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", uri).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestAServerShowsACertificateOfOnesOwn: it comes and is renewed without a restart, an old connection continues, a pair that doesn't fit and one that has
// expired are not shown, and nobody gets a role of Howdah by that CA.
func TestAServerShowsACertificateOfOnesOwn(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	p.run()
	pid := p.pid()
	other := newCompany(t)
	certificate, key, ca := other.issue(t, "db.example.com", "localhost")
	roots := filepath.Join(t.TempDir(), "company.crt")
	p.write(roots, string(ca))
	uri := func(roots string) string {
		return fmt.Sprintf("postgresql://app:first@localhost:%d/shop?sslmode=verify-full&sslrootcert=%s", p.Port, roots)
	}
	if out, err := p.psql(uri(roots)); err == nil {
		t.Errorf("a client that trusts the company's CA only came in before the server has its certificate: %s", out)
	}
	old, err := p.connect("app", "first", "shop", "")
	if err != nil {
		t.Fatal(err)
	}

	p.brings(agentapi.Passwords{agentapi.ServerTrustKey: ca})
	p.awaitStatus("tell that it trusts the CA", func(s agentapi.Status) bool {
		return s.ServerTLS != nil && s.ServerTLS.Trust == agentapi.HashTLS(ca) && s.ServerTLS.Certificate == ""
	})
	all := agentapi.Passwords{agentapi.ServerTrustKey: ca, agentapi.ServerCertificateKey: certificate, agentapi.ServerPrivateKey: key}
	p.brings(all)
	shows := func(certificate []byte) {
		t.Helper()
		p.awaitStatus("tell of the certificate", func(s agentapi.Status) bool { return s.ServerTLS.Certificate == agentapi.HashTLS(certificate) })
	}
	shows(certificate)
	p.await("let in a client that trusts the company's CA", func() bool { out, err := p.psql(uri(roots)); return err == nil && out == "t" })
	if out, err := p.psql(uri(filepath.Join(p.TLSDir, "ca.crt"))); err == nil {
		t.Errorf("the server still shows the previous certificate: %s", out)
	}

	renewed, newKey, _ := other.issue(t, "db.example.com", "localhost")
	p.brings(agentapi.Passwords{agentapi.ServerTrustKey: ca, agentapi.ServerCertificateKey: renewed, agentapi.ServerPrivateKey: key})
	p.awaitStatus("refuse a key that doesn't fit", func(s agentapi.Status) bool { return s.ServerTLS.Problem != "" })
	shows(certificate)
	all[agentapi.ServerCertificateKey], all[agentapi.ServerPrivateKey] = renewed, newKey
	p.brings(all)
	shows(renewed)
	if status := p.agent.Status(); status.ServerTLS.Problem != "" {
		t.Errorf("it still says %s", status.ServerTLS.Problem)
	}

	// Only PostgreSQL shows it: certificates of clients are verified with Howdah's own CA.
	stranger := filepath.Join(t.TempDir(), "client")
	other.Fill(t, stranger, agentapi.ReplicationRole)
	login := fmt.Sprintf("host=localhost port=%d user=%s dbname=postgres sslmode=verify-full sslrootcert=%s sslcert=%s/tls.crt sslkey=%s/tls.key",
		p.Port, agentapi.ReplicationRole, roots, stranger, stranger)
	if out, err := p.psql(login); err == nil || !strings.Contains(out, "unknown ca") {
		t.Errorf("a certificate of the other CA is let in as %s: %s", agentapi.ReplicationRole, out)
	}

	p.brings(agentapi.Passwords{agentapi.ServerTrustKey: ca})
	p.awaitStatus("go back to Howdah's certificate", func(s agentapi.Status) bool { return s.ServerTLS.Certificate == "" })
	p.await("let in a client that trusts Howdah's CA", func() bool { _, err := p.psql(uri(filepath.Join(p.TLSDir, "ca.crt"))); return err == nil })
	var one int
	if err := old.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
		t.Errorf("the session from before has ended: %v", err)
	}
	if p.pid() != pid {
		t.Error("the server restarted")
	}
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	p.brings(all)
	p.run()
	if out, err := p.psql(uri(roots)); err != nil {
		t.Errorf("after a restart the server doesn't show it: %s", out)
	}
}

func pemOf(ca *authority.Authority) []byte { return inPEM(ca.Certificate.Raw) }
