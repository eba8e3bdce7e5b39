//go:build postgres

package roles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// sample are passwords of a ligature, which NFKC takes apart, and a code point of everywhere.
func sample() (passwords []string) {
	for r := rune(0x80); r < 0x30000; r += 1 + r/40 {
		if r < 0xD800 || r > 0xDFFF {
			passwords = append(passwords, "ﬁ"+string(r), string(r)+"\u0627")
		}
	}
	return append(passwords, "\u0627", "\u06271\u0627", "\u0627x\u0627", "\u00ad", "cafe\u0301", "\u200b", "\u2168", "a\u00a0b", "\U0001F101", "plain")
}

func TestTheServerMakesTheSameVerifierOfAPassword(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		if pg.Major >= 16 {
			server.Configure(map[string]string{"scram_iterations": "2"})
			server.SQL("SELECT pg_reload_conf()")
		}
		err := (local.Server{SocketDir: server.SocketDir, Port: 5432}).With(t.Context(), "postgres", func(conn *pgx.Conn) error {
			if _, err := conn.Exec(t.Context(), "CREATE ROLE app"); err != nil {
				return err
			}
			for _, password := range sample() {
				var stored string
				if _, err := conn.Exec(t.Context(), "ALTER ROLE app PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'"); err != nil {
					return fmt.Errorf("%+q: %w", password, err)
				}
				if err := conn.QueryRow(t.Context(), "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'").Scan(&stored); err != nil {
					return err
				}
				if !verifies(stored, password) {
					t.Errorf("%+q", password)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestThePasswordOfTheApplicationIsHashedAsOftenAsTheServerIsSetTo(t *testing.T) {
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		params, want := map[string]string{}, "SCRAM-SHA-256$4096:"
		if pg.Major >= 16 {
			params["scram_iterations"], want = "7000", "SCRAM-SHA-256$7000:"
		}
		server := pgtest.Start(t, pgtest.Options{Major: pg.Major, Params: params})
		wanted := Wanted{Major: pg.Major, Database: "shop", Owner: "app", Password: "ﬁnal"}
		if err := Ensure(t.Context(), local.Server{SocketDir: server.SocketDir, Port: 5432}, wanted); err != nil {
			t.Fatal(err)
		}
		if got := server.SQL("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'"); !strings.HasPrefix(got, want) {
			t.Error(got)
		}
	})
}
