//go:build postgres

package pgbouncer

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// setting is what a parameter of PgBouncer is now.
func (b *bed) setting(name string) string {
	b.t.Helper()
	rows, err := b.pooler.bouncer.rows(b.t.Context(), "SHOW CONFIG")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, row := range rows {
		if row["key"] == name {
			return row["value"]
		}
	}
	return ""
}

// asks writes parameters of PgBouncer into the configuration.
func (b *bed) asks(parameters map[string]string) {
	b.t.Helper()
	b.config.Parameters = parameters
	b.write(b.pooler.ConfigFile)
}

// metric is the value of a metric that Prometheus would be told.
func (b *bed) metric(name string) string {
	b.t.Helper()
	recorder := httptest.NewRecorder()
	Metrics(b.pooler).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if recorder.Code != http.StatusOK {
		b.t.Fatalf("%d: %s", recorder.Code, recorder.Body)
	}
	for line := range strings.Lines(recorder.Body.String()) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), name+" "); is {
			return value
		}
	}
	return ""
}

func TestAConfigurationThatPgBouncerRefusesChangesNothing(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	for _, name := range []string{"query_wait_timeout", "application_name_add_host", "client_tls_ciphers"} { // the second is the first of all
		b.asks(map[string]string{name: "60s"})
		time.Sleep(2*lookTime + tickTime)
		if got := b.setting("server_tls_sslmode"); got != "verify-ca" {
			t.Errorf("after a wrong %s, the TLS of servers is %q", name, got)
		}
		b.asked(b.connect())
		if got := b.metric("howdah_pooler_config_refused"); got != "1" {
			t.Errorf("after a wrong %s, the metric of refused configurations is %q", name, got)
		}
	}
	b.asks(map[string]string{"query_wait_timeout": "61"})
	b.until("a good configuration is taken over", func() bool { return b.setting("query_wait_timeout") == "61" })
	b.asked(b.connect())
	b.until("it is not refused any more", func() bool { return b.metric("howdah_pooler_config_refused") == "0" })
}

func TestAServerWithACertificateOfAnotherCAIsWatched(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.trustAnother(a)
	b.lead(a, 1)
	b.run(nil)
	b.asked(b.connect())
	b.untilWithin(30*time.Second, "the server has a session of the pooler", func() bool {
		return a.SQL("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah_pooler'") == "1"
	})
}

// trustAnother has a server show a certificate of another CA, which the pooler trusts in servers only.
func (b *bed) trustAnother(i *instance) {
	b.t.Helper()
	other, dir := authority.New(b.t), filepath.Join(b.dir, "other")
	other.Fill(b.t, dir, i.place.Pod, i.place.Pod+".shop-pods.demo.svc")
	pgtest.Own(b.t, dir)
	i.SQL("ALTER SYSTEM SET ssl_cert_file = '" + filepath.Join(dir, "tls.crt") + "'")
	i.SQL("ALTER SYSTEM SET ssl_key_file = '" + filepath.Join(dir, "tls.key") + "'")
	i.SQL("SELECT pg_reload_conf()")
	var bundle []byte
	for _, ca := range []*authority.Authority{b.ca, other} {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw})...)
	}
	of := filepath.Join(b.dir, "tls")
	if err := os.MkdirAll(of, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(of, serverCAFile), bundle, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// A client may send any bytes as names before its password is checked.
func TestNamesThatAreNoTextDontEndTheMetrics(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	b.asked(b.connect())
	config, err := pgx.ParseConfig(b.dsn("app", "wrong"))
	if err != nil {
		t.Fatal(err)
	}
	config.Database = "\xff"
	if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("a client logs in with a wrong password")
	}
	if got := b.metric(`howdah_pooler_transactions_total{database="shop"}`); got != "1" {
		t.Errorf("%q transactions", got)
	}
}

// TestThatNobodyCanLogInShowsInTheMetrics: the clients learn nothing of the role that passwords are looked up with.
func TestThatNobodyCanLogInShowsInTheMetrics(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	b.asked(b.connect())
	if got := b.metric("howdah_pooler_lookups_refused"); got != "0" {
		t.Errorf("while clients log in, the metric of refused lookups is %q", got)
	}
	a.SQL("ALTER ROLE howdah_pooler NOLOGIN")
	a.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'howdah_pooler'")
	if got := <-b.comes(20 * time.Second); !strings.Contains(got, "failed") {
		t.Errorf("the client got %s", got)
	}
	if got := b.metric("howdah_pooler_lookups_refused"); got != "1" {
		t.Errorf("while PostgreSQL refuses the role, it is %q", got)
	}
	a.SQL("ALTER ROLE howdah_pooler LOGIN")
	b.until("a client can log in again", func() bool { return <-b.comes(20*time.Second) == a.place.Address })
	if got := b.metric("howdah_pooler_lookups_refused"); got != "0" {
		t.Errorf("once clients log in again, it is %q", got)
	}
}
