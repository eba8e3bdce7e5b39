//go:build postgres

package supervise

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestDeclaredRolesAndDatabasesFollowConfigurationAndSecrets(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.RolesFile = filepath.Join(t.TempDir(), "roles.json")
	p.run()
	pid := p.pid()
	if declared := p.agent.Status().Declared; declared != nil {
		t.Errorf("nothing is declared, and it says %+v", declared)
	}
	config := p.config
	config.Declared = &agentapi.Declared{
		Roles:     []agentapi.Role{{Name: "reporting", Login: true, Inherit: true, ConnectionLimit: -1, Password: true}},
		Databases: []agentapi.Database{{Name: "reports", Owner: "reporting", Extensions: []agentapi.Extension{{Name: "pg_trgm"}}}},
	}
	p.configure(config)
	p.awaitStatus("say that the password is missing", func(status agentapi.Status) bool {
		return status.Declared != nil && len(status.Declared.Problems) == 1 && strings.Contains(status.Declared.Problems[0], "role reporting: its password")
	})
	for _, password := range []string{"geheim-1", "geheim-2"} {
		content, err := json.Marshal(agentapi.Passwords{"reporting": []byte(password), "somebody": []byte("else's")})
		if err != nil {
			t.Fatal(err)
		}
		p.write(p.RolesFile, string(content))
		p.await("let the role in with "+password, func() bool {
			conn, err := p.connect("reporting", password, "reports", "")
			if err == nil {
				conn.Close(t.Context())
			}
			return err == nil
		})
	}
	p.awaitStatus("say that all is as declared", func(status agentapi.Status) bool {
		return status.Declared != nil && status.Declared.Hash == config.Declared.Hash() && len(status.Declared.Problems) == 0
	})
	if _, err := p.connect("reporting", "geheim-1", "reports", ""); err == nil {
		t.Error("the old password still lets in")
	}
	if strings.Contains(p.log.String(), "geheim") || strings.Contains(p.log.String(), "SCRAM-SHA-256$") {
		t.Error("a password is in the log")
	}
	config.Declared = nil
	p.configure(config)
	p.awaitStatus("forget what is not declared any more", func(status agentapi.Status) bool { return status.Declared == nil })
	if p.sql("SELECT count(*)::text FROM pg_database WHERE datname = 'reports'") != "1" || p.pid() != pid {
		t.Error("a database was dropped, or the server restarted, for a change of what is declared")
	}
}

func TestARuleOfPgHbaConfCountsAtOnceAndOneThatPostgreSQLCannotReadIsRefused(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	pid := p.pid()
	if _, err := p.connect("app", "first", "shop", ""); err != nil {
		t.Fatal(err)
	}
	config := p.config
	config.HBA = []string{"hostssl shop app 127.0.0.0/8 reject", "hostssl shop app ::1/128 reject"}
	p.configure(config)
	p.awaitStatus("apply the rule", func(status agentapi.Status) bool { return status.ConfigHash == config.Hash() })
	if _, err := p.connect("app", "first", "shop", ""); err == nil {
		t.Error("a role that is rejected came in")
	}
	good := config.Hash()
	for rule, want := range map[string]string{
		"hostssl all all all ldap":       "requires argument",        // only PostgreSQL knows
		"hostssl all all all trust":      "is not an allowed method", // we do
		"host all all all scram-sha-256": "hostssl",
	} {
		config.HBA = []string{"hostssl shop app all reject", rule}
		p.configure(config)
		status := p.awaitStatus("refuse "+rule, func(status agentapi.Status) bool { return status.ConfigErrorHash == config.Hash() })
		if !strings.Contains(status.ConfigError, rule) || !strings.Contains(status.ConfigError, want) || status.ConfigHash != good {
			t.Errorf("%s: %s", rule, status.ConfigError)
		}
	}
	config.HBA = nil
	p.configure(config)
	p.await("let the role in again", func() bool {
		conn, err := p.connect("app", "first", "shop", "")
		if err == nil {
			conn.Close(t.Context())
		}
		return err == nil
	})
	if p.pid() != pid {
		t.Error("a change of rules restarted the server")
	}
}

func TestAServerStartsWithThePreviousRulesWhenItCannotReadTheNewOnes(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	config := p.config
	config.HBA = []string{"hostssl all all all ldap"}
	p.configure(config)
	p.run()
	if status := p.agent.Status(); status.ConfigErrorHash != config.Hash() || !strings.Contains(status.ConfigError, "pg_hba.conf") {
		t.Errorf("it says %q", status.ConfigError)
	}
}
