package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/test/testkit/authority"
)

// TestCertificatesThatCouldNotBeCopiedAreCopiedLater, without any other change of what the agent is told.
func TestCertificatesThatCouldNotBeCopiedAreCopiedLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := Paths{TLSDir: filepath.Join(dir, "secret"), PeerTLSDir: filepath.Join(dir, "none"), RolesFile: filepath.Join(dir, "roles.json")}
	if err := os.Mkdir(from.TLSDir, 0o700); err != nil {
		t.Fatal(err)
	}
	authority.New(t).Fill(t, from.TLSDir, "shop", "localhost")
	inTheWay := filepath.Join(dir, "run")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to := settings.Paths{TLSDir: filepath.Join(inTheWay, "tls"), PeerTLSDir: filepath.Join(inTheWay, "peer"), LDAPCAFile: filepath.Join(inTheWay, "ca"), LDAPConfFile: filepath.Join(inTheWay, "conf")}
	i := &instance{Options: Options{Paths: from, Log: slog.New(slog.DiscardHandler)}, State: &State{}}
	r := &runner{shared: &shared{instance: i}, adopted: &adopted{paths: to}}
	r.renewTLS()
	if r.retryTLS() || !strings.Contains(r.Status().ServerTLS.Problem, "can't be put where PostgreSQL reads them") {
		t.Fatalf("nothing is in the way: %+v", r.Status().ServerTLS)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if !r.retryTLS() || r.Status().ServerTLS.Problem != "" {
		t.Errorf("it is not tried again: %+v", r.Status().ServerTLS)
	}
	if copied, err := settings.ReadTLS(to.TLSDir); err != nil || len(copied.Certificate) == 0 {
		t.Errorf("%v: %d bytes", err, len(copied.Certificate))
	}
	if until := time.Until(r.Status().ServerTLS.Shown.Until); until <= 0 {
		t.Errorf("it is shown for %s", until)
	}
	if r.retryTLS() {
		t.Error("what succeeded is done again")
	}
}

// TestTheImagesOwnConfigurationForDirectoriesCounts where there are no CAs of a person's own.
func TestTheImagesOwnConfigurationForDirectoriesCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	silent, named, system := file("silent", "# TLS_CACERT /a\nBASE dc=example\n"), file("named", "\n tls_cacert\t/a.crt\n"), file("system", "")
	none := filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		own   ownTLS
		image ldapFiles
		want  string
	}{
		"CAs of one's own":       {ownTLS{ldap: "x"}, ldapFiles{conf: []string{named}, cas: []string{system}}, "TLS_CACERT /run/ca\n"},
		"those of its ldap.conf": {ownTLS{}, ldapFiles{conf: []string{none, named}, cas: []string{system}}, ""},
		"those of its system":    {ownTLS{}, ldapFiles{conf: []string{none, silent}, cas: []string{none, system}}, "TLS_CACERT " + system + "\n"},
		"none at all":            {ownTLS{}, ldapFiles{conf: []string{none}, cas: []string{none}}, ""},
	} {
		if got := string(c.own.directories(c.image, "/run/ca")); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
