//go:build postgres

package supervise

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/slapdtest"
)

func TestRolesLogInByLdapWithThePasswordOfASearcherThatIsNowhereElse(t *testing.T) {
	pgtest.OneVersionIsEnough(t) // images have no slapd
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	directory := slapdtest.Start(t, "ldap", "localhost", "")
	p.run()
	pid := p.pid()
	config := p.config
	config.Declared = &agentapi.Declared{Roles: []agentapi.Role{{Name: "alice", Login: true, ConnectionLimit: -1}}}
	config.LDAPPassword = true
	config.Ident = []string{"apps web-client app"}
	config.HBA = []string{
		fmt.Sprintf(`hostssl shop alice all ldap ldapserver=localhost ldapport=%d ldapbasedn=dc=example ldapbinddn="cn=reader,dc=example"`, directory),
		"hostssl shop app all cert map=apps",
	}
	p.configure(config)
	p.awaitStatus("apply the rules", func(status agentapi.Status) bool {
		return status.ConfigHash == config.Hash() && status.Declared != nil && status.Declared.Hash == config.Declared.Hash()
	})
	comesIn := func(user, password, certificate string) bool {
		conn, err := p.connect(user, password, "shop", certificate)
		if err == nil {
			conn.Close(t.Context())
		}
		return err == nil
	}
	know := func(password string) {
		content, err := json.Marshal(agentapi.Passwords{agentapi.LDAPPasswordKey: []byte(password)})
		if err != nil {
			t.Fatal(err)
		}
		p.write(p.RolesFile, string(content))
	}
	if comesIn("alice", "wonderland", "") {
		t.Error("alice came in, although the server could not search the directory")
	}
	know("wrong, geheim")
	p.await("take a wrong password for the directory", func() bool {
		content, _ := os.ReadFile(filepath.Join(p.RunDir, "ldap"))
		return strings.Contains(string(content), "wrong, geheim")
	})
	if comesIn("alice", "wonderland", "") {
		t.Error("alice came in, although the server has a wrong password for the directory")
	}
	know(slapdtest.ReaderPassword)
	p.await("let alice in when the Secret is right", func() bool { return comesIn("alice", "wonderland", "") })
	if comesIn("alice", "looking-glass", "") {
		t.Error("alice came in with a wrong password")
	}
	if !comesIn("app", "", "web-client") || comesIn("app", "", "other-client") || comesIn("app", "first", "") {
		t.Error("the map of pg_ident.conf is not what decides")
	}
	if p.pid() != pid {
		t.Error("the server restarted")
	}
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	p.run()
	if !comesIn("alice", "wonderland", "") {
		t.Error("alice can't come in after a restart")
	}
	if strings.Contains(p.log.String(), "geheim") {
		t.Error("the password is in the log")
	}
	err := filepath.WalkDir(string(p.Volume), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "geheim") {
			t.Errorf("the password is on the volume, in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
