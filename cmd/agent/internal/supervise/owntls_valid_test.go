package supervise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/authority"
)

// TestACertificateThatNoReplicaWouldAcceptIsNotShown, be it because it has expired or because nobody trusts its CA (any more).
func TestACertificateThatNoReplicaWouldAcceptIsNotShown(t *testing.T) {
	t.Parallel()
	dirs := map[string]string{"howdah": t.TempDir(), "company": t.TempDir(), "other": t.TempDir()}
	for name, dir := range dirs {
		authority.New(t).Fill(t, dir, name, "localhost")
	}
	read := func(dir string) settings.TLSFiles {
		files, err := settings.ReadTLS(dir)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	howdah, company, other := read(dirs["howdah"]), read(dirs["company"]), read(dirs["other"])
	paths := Paths{RolesFile: filepath.Join(t.TempDir(), "roles.json")}
	for name, c := range map[string]struct {
		trust []byte
		after time.Duration
		shown []byte
	}{
		"all is well":     {company.CA, 0, company.Certificate},
		"it has expired":  {company.CA, 2 * time.Hour, howdah.Certificate},
		"of another CA":   {other.CA, 0, howdah.Certificate},
		"nothing trusted": {nil, 0, howdah.Certificate},
	} {
		content, err := json.Marshal(agentapi.Passwords{
			agentapi.ServerCertificateKey: company.Certificate, agentapi.ServerPrivateKey: company.Key, agentapi.ServerTrustKey: c.trust,
		})
		if err == nil {
			err = os.WriteFile(paths.RolesFile, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().Add(c.after)
		own, err := paths.readOwnTLS(now)
		if err != nil {
			t.Fatal(err)
		}
		shown, problem := own.chooseOver(howdah, t.TempDir(), now)
		if string(shown.Certificate) != string(c.shown) || (problem == "") != (name == "all is well") {
			t.Errorf("%s: %q, and shown is\n%s", name, problem, shown.Certificate)
		}
	}
}
