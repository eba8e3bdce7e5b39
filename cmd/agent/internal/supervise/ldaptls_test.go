//go:build postgres

package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/slapdtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestRolesLogInAtADirectoryOverTLS whose CA comes and changes without a restart: a server process reads it when a client logs in.
func TestRolesLogInAtADirectoryOverTLS(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t) // images have no slapd
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	company := newCompany(t)
	machine, err := os.Hostname() // by which libldap checks localhost
	if err != nil {
		t.Fatal(err)
	}
	_, _, ca := company.issue(t, "directory", machine)
	files := slapdtest.TLS(company.dir)
	overTLS, starting := slapdtest.Start(t, "ldaps", "localhost", files), slapdtest.Start(t, "ldap", "localhost", files)
	p.run()
	pid := p.pid()
	config := p.config
	config.Declared = &agentapi.Declared{Roles: []agentapi.Role{{Name: "alice", Login: true, ConnectionLimit: -1}}}
	comesIn := func(password string) bool {
		conn, err := p.connect("alice", password, "shop", "")
		if err == nil {
			conn.Close(t.Context())
		}
		return err == nil
	}
	for name, options := range map[string]string{
		"ldaps":    fmt.Sprintf("ldapscheme=ldaps ldapport=%d", overTLS),
		"StartTLS": fmt.Sprintf("ldaptls=1 ldapport=%d", starting),
	} {
		p.brings(agentapi.Passwords{})
		config.HBA = []string{`hostssl shop alice all ldap ldapserver=localhost ldapprefix="uid=" ldapsuffix=",dc=example" ` + options}
		p.configure(config)
		p.awaitStatus("apply the rules", func(status agentapi.Status) bool {
			return status.ConfigHash == config.Hash() && status.Declared != nil && status.Declared.Hash == config.Declared.Hash() && status.ServerTLS.LDAP == ""
		})
		if comesIn("wonderland") {
			t.Errorf("%s: alice came in, although nobody knows the directory's CA", name)
		}
		p.brings(agentapi.Passwords{agentapi.LDAPTrustKey: pemOf(authority.New(t))})
		p.awaitStatus("take a CA", func(status agentapi.Status) bool { return status.ServerTLS.LDAP != "" })
		if comesIn("wonderland") {
			t.Errorf("%s: alice came in at a directory of another CA", name)
		}
		p.brings(agentapi.Passwords{agentapi.LDAPTrustKey: ca})
		p.await("let alice in when the CA is known", func() bool { return comesIn("wonderland") })
		if comesIn("looking-glass") {
			t.Errorf("%s: alice came in with a wrong password", name)
		}
	}
	if p.pid() != pid {
		t.Error("the server restarted")
	}
}
