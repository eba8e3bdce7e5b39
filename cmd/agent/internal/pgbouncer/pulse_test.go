package pgbouncer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAServerThatCantBeWatchedIsLoggedOnceForEachReason(t *testing.T) {
	var logged strings.Builder
	p := newPulse(nil, slog.New(slog.NewTextHandler(&logged, nil)))
	server := place{Pod: "shop-0"}
	lines := func(want int, err error) {
		t.Helper()
		p.explain(t.Context(), server, err)
		if got := strings.Count(logged.String(), "can't be watched"); got != want {
			t.Errorf("after %v, there are %d lines: %s", err, got, logged.String())
		}
	}
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	lines(1, fmt.Errorf("port 1: %w", certificate))
	lines(1, fmt.Errorf("port 2: %w", certificate))
	lines(2, &pgconn.PgError{Code: "28000"})
	lines(2, nil)
	lines(3, &pgconn.PgError{Code: "28000"})
}
