package pgbouncer

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/pkg/postgres"
)

// asPgBouncer connects to lookups that have no server, by these names.
func asPgBouncer(t *testing.T, user, database string) (*pgproto3.Frontend, *lookups) {
	t.Helper()
	l := newLookups(nil, false, func(bool) {}, slog.New(slog.DiscardHandler))
	dir, err := os.MkdirTemp("", "lookup") // the names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, ".s.PGSQL.1"), nil, 0o600); err != nil { // of an earlier process
		t.Fatal(err)
	}
	listener, err := l.listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	go l.run(t.Context(), listener)
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	frontend := pgproto3.NewFrontend(conn, conn)
	frontend.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": user, "database": database}})
	if err := frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	return frontend, l
}

// told is what comes until the next question may be asked: errors, and the kinds of other messages.
func told(t *testing.T, frontend *pgproto3.Frontend) string {
	t.Helper()
	var all []string
	for {
		message, err := frontend.Receive()
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			all = append(all, m.Message)
		case *pgproto3.DataRow:
			all = append(all, "row")
		case *pgproto3.CommandComplete:
			all = append(all, string(m.CommandTag))
		case *pgproto3.ReadyForQuery:
			return strings.Join(all, ", ")
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return strings.Join(append(all, "the end"), ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func ask(t *testing.T, frontend *pgproto3.Frontend, query string) string {
	t.Helper()
	frontend.SendParse(&pgproto3.Parse{Query: query})
	frontend.SendBind(&pgproto3.Bind{Parameters: [][]byte{[]byte("app")}})
	frontend.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
	frontend.SendExecute(&pgproto3.Execute{})
	frontend.SendSync(&pgproto3.Sync{})
	if err := frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	return told(t, frontend)
}

// A client that has logged in may name any database.
func TestClientsCantComeToWherePasswordsAreLookedUp(t *testing.T) {
	for _, names := range [][2]string{{"app", lookupDatabase}, {postgres.RolePooler, "postgres"}, {"", ""}} {
		frontend, _ := asPgBouncer(t, names[0], names[1])
		if got := told(t, frontend); got != errOther.Error()+", the end" {
			t.Errorf("%s at %s is told %q", names[0], names[1], got)
		}
	}
}

func TestNothingElseIsAnsweredWherePasswordsAreLookedUp(t *testing.T) {
	frontend, _ := asPgBouncer(t, postgres.RolePooler, lookupDatabase)
	if got := told(t, frontend); got != "" {
		t.Fatalf("PgBouncer is told %q", got)
	}
	if got := ask(t, frontend, "SELECT rolpassword FROM pg_authid WHERE rolname = $1"); got != errOther.Error() {
		t.Errorf("another question is answered by %q", got)
	}
	for _, query := range []string{"", "DISCARD ALL", "SELECT 1"} {
		frontend.Send(&pgproto3.Query{String: query})
		if err := frontend.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := told(t, frontend); got != "SELECT 0" {
			t.Errorf("%q is answered by %q", query, got)
		}
	}
	if got := ask(t, frontend, lookupQuery); !strings.Contains(got, "no server yet") {
		t.Errorf("without a server, the answer is %q", got)
	}
}

func TestAPasswordIsAskedForAgainUnlessTheServerRefusesTheQuestion(t *testing.T) {
	for code, want := range map[string]bool{
		"57P01": false, "57P03": false, "57014": false, "53300": false, "40001": false, "08006": false,
		"28000": true, "42883": true, "3F000": true, "42501": true, "": false,
	} {
		if got := isFinal(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s is final: %t", code, got)
		}
	}
	if isFinal(io.EOF) || isFinal(errReplica) {
		t.Error("a session that ends is final")
	}
}
