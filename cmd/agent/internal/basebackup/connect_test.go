package basebackup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/test/testkit/authority"
)

// answers is a server that goes as far as TLS. Its port is returned, and a channel that is told what each handshake came to.
func answers(t *testing.T, certificates string) (uint16, <-chan error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	handshakes := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.ReadFull(conn, make([]byte, 8)) // SSLRequest
		if err == nil {
			_, err = conn.Write([]byte("S"))
		}
		if err == nil {
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12})
			err = secure.Handshake()
		}
		handshakes <- err
	}()
	return uint16(listener.Addr().(*net.TCPAddr).Port), handshakes
}

func TestTheInstanceIsLookedForAtItsAddressAndKnownByItsName(t *testing.T) {
	const host = "shop-0.shop-pods.demo.svc"
	for asked, trusted := range map[string]bool{host: true, "shop-rw.demo.svc": false} {
		certificates := t.TempDir()
		authority.New(t).Fill(t, certificates, host, host)
		port, handshakes := answers(t, certificates)
		config, err := connectConfig(asked, "127.0.0.1", certificates, 15)
		if err != nil {
			t.Fatal(err)
		}
		config.Port = port
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		_, err = pgx.ConnectConfig(ctx, config)
		cancel()
		var other x509.HostnameError
		if errors.As(err, &other) == trusted {
			t.Errorf("%s: %v", asked, err)
		}
		if handshake := <-handshakes; (handshake == nil) != trusted {
			t.Errorf("%s: the server says %v", asked, handshake)
		}
	}
}
