//go:build postgres

package pgbouncer

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/authority"
)

// admits says whether the pooler lets a client in whose TLS is changed so.
func (b *bed) admits(change func(*tls.Config)) bool {
	b.t.Helper()
	config, err := pgx.ParseConfig(b.dsn("app", "secret"))
	if err != nil {
		b.t.Fatal(err)
	}
	change(config.TLSConfig)
	conn, err := pgx.ConnectConfig(b.t.Context(), config)
	if err != nil {
		return false
	}
	return conn.Close(context.Background()) == nil
}

// with is a client that has a certificate of a CA, which the server's is not verified with.
func with(t *testing.T, ca *authority.Authority) func(*tls.Config) {
	certificate := ca.Issue(t, "app")
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
}

func without(*tls.Config) {}

// reads has the pooler read how clients connect, until that holds.
func (b *bed) reads(how agentapi.PoolerTLS, what string, holds func() bool) {
	b.t.Helper()
	b.config.ClientTLS = how
	b.write(b.pooler.ConfigFile)
	b.until(what, holds)
}

func TestClientsHaveTheCertificatesThatThePoolerAsksFor(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	other := authority.New(t)
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate.Raw}))
	conn := b.connect()
	if !b.admits(without) {
		t.Fatal("nobody is let in")
	}
	b.reads(agentapi.PoolerTLS{Verify: true, Require: true}, "a client without a certificate is refused", func() bool { return !b.admits(without) })
	if !b.admits(with(t, b.ca)) || b.admits(with(t, other)) {
		t.Error("it is not the certificates of the cluster that are accepted")
	}
	b.reads(agentapi.PoolerTLS{Verify: true, Require: true, CA: bundle}, "a certificate of another CA is accepted", func() bool { return b.admits(with(t, other)) })
	if b.admits(with(t, b.ca)) || b.admits(without) {
		t.Error("others are accepted, too")
	}
	b.reads(agentapi.PoolerTLS{Verify: true, CA: bundle}, "a client without a certificate is let in", func() bool { return b.admits(without) })
	if !b.admits(with(t, other)) || b.admits(with(t, b.ca)) {
		t.Error("certificates are not verified")
	}
	b.asked(conn) // which has continued throughout
}

func TestClientsUseTheVersionsAndCiphersOfTLSThatThePoolerAllows(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	old := func(cipher uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{cipher} }
	}
	const small, large = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	if !b.admits(old(small)) || !b.admits(old(large)) {
		t.Fatal("TLS 1.2 is refused")
	}
	b.reads(agentapi.PoolerTLS{MinVersion: "TLSv1.2", Ciphers: []string{"ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_AES_256_GCM_SHA384"}}, "a cipher is refused", func() bool { return !b.admits(old(small)) })
	if !b.admits(old(large)) || !b.admits(without) {
		t.Error("those that are allowed are refused, too")
	}
	b.reads(agentapi.PoolerTLS{MinVersion: "TLSv1.3"}, "TLS 1.2 is refused", func() bool { return !b.admits(old(large)) })
	if !b.admits(without) {
		t.Error("TLS 1.3 is refused, too")
	}
}
