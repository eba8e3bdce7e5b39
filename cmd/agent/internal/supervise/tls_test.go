//go:build postgres

package supervise

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAPersonMakesTLSStricterAndAListThatOpenSSLDoesNotKnowIsRefused(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	p.run()
	old := func() error { // a client that knows no TLS 1.3
		config, err := pgx.ParseConfig("host=localhost user=app password=first dbname=shop sslmode=require connect_timeout=5")
		if err != nil {
			t.Fatal(err)
		}
		config.Port, config.TLSConfig = uint16(p.Port), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err
	}
	if err := old(); err != nil {
		t.Fatal(err)
	}
	p.configure(p.with(map[string]string{"ssl_min_protocol_version": "TLSv1.3", "ssl_ecdh_curve": "secp384r1"}))
	p.awaitStatus("apply it", func(s agentapi.Status) bool { return s.ConfigHash == p.config.Hash() })
	p.await("refuse TLS 1.2", func() bool { return old() != nil })
	if _, err := p.connect("app", "first", "shop", ""); err != nil {
		t.Errorf("with TLS 1.3: %v", err)
	}
	p.configure(p.with(map[string]string{"ssl_ciphers": "no-such-cipher"}))
	status := p.awaitStatus("refuse it", func(s agentapi.Status) bool { return s.ConfigErrorHash == p.config.Hash() })
	if !strings.Contains(status.ConfigError, "cipher") {
		t.Errorf("%+v", status)
	}
	if _, err := p.connect("app", "first", "shop", ""); err != nil {
		t.Errorf("the previous settings are gone: %v", err)
	}
}
