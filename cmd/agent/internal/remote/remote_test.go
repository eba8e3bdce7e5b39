package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAConnectionChecksTheServerAndShowsNoPassword(t *testing.T) {
	login := Login{Host: "shop-rw.demo.svc", Port: "5432", User: `o'neil \ x`, Password: `a:b\c 'd'`, CA: authority(t)}
	dir := filepath.Join(t.TempDir(), "target")
	text, err := login.Connection(dir, postgres.SessionSettings(17))
	if err != nil || strings.Contains(text, "a:b") {
		t.Fatalf("%s, %v", text, err)
	}
	config, err := pgx.ParseConfig(text + " dbname=shop")
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != login.Host || config.Port != 5432 || config.User != login.User || config.Password != login.Password || config.Database != "shop" {
		t.Errorf("%s:%d, %s, %q", config.Host, config.Port, config.User, config.Password)
	}
	if config.TLSConfig == nil || config.TLSConfig.ServerName != login.Host || config.TLSConfig.RootCAs == nil || config.TLSConfig.InsecureSkipVerify || len(config.Fallbacks) != 0 {
		t.Errorf("TLS: %+v", config.TLSConfig)
	}
	if !strings.Contains(config.RuntimeParams["options"], "-c search_path=pg_catalog") {
		t.Errorf("options: %v", config.RuntimeParams)
	}
	if info, err := os.Stat(filepath.Join(dir, "pgpass")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
