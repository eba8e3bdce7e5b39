//go:build postgres

package supervise

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

// TestRulesHaveThePasswordForLDAPWhateverTheVersion: versions differ in how they read files that a rule names. The machine's version logs in
// at a directory with it.
func TestRulesHaveThePasswordForLDAPWhateverTheVersion(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	p.run()
	config := p.config
	config.LDAPPassword = true
	config.HBA = []string{`hostssl shop all all ldap ldapserver=localhost ldapbasedn=dc=example ldapbinddn="cn=reader,dc=example"`}
	p.configure(config)
	p.awaitStatus("apply the rules", func(status agentapi.Status) bool { return status.ConfigHash == config.Hash() })
	for _, password := range []string{`rea"der, geheim`, "another @one #2"} {
		content, err := json.Marshal(agentapi.Passwords{agentapi.LDAPPasswordKey: []byte(password)})
		if err != nil {
			t.Fatal(err)
		}
		p.write(p.RolesFile, string(content))
		p.await("give the rule the password of the Secret", func() bool {
			return strings.Contains(p.sql("SELECT array_to_string(options, '|') || '|' FROM pg_hba_file_rules WHERE auth_method = 'ldap'"), "ldapbindpasswd="+password+"|")
		})
	}
	if errors := p.sql("SELECT count(*)::text FROM pg_hba_file_rules WHERE error IS NOT NULL"); errors != "0" {
		t.Errorf("%s rules have errors", errors)
	}
}
