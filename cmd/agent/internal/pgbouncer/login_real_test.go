//go:build postgres

package pgbouncer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestClientsLogInWithTheirOwnPasswordAndNobodyElseDoes(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	if got := b.asked(b.connect()); got != a.place.Address {
		t.Errorf("sent to %s", got)
	}
	recorder := httptest.NewRecorder()
	Metrics(b.pooler).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"howdah_pooler_up 1", "howdah_pooler_waiting 0", `howdah_pooler_clients{database="shop",state="active",user="app"} 1`, `howdah_pooler_transactions_total{database="shop"} 1`} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("no %s in %s", want, recorder.Body)
		}
	}
	for _, login := range [][2]string{{"app", "wrong"}, {"postgres", ""}, {"howdah_pooler", ""}, {"howdah_backup", "x"}, {"nobody", "x"}, {console, "x"}} {
		conn, err := pgx.Connect(t.Context(), b.dsn(login[0], login[1]))
		if err == nil {
			conn.Close(t.Context())
			t.Errorf("%s logs in with %q", login[0], login[1])
		}
	}
	for _, file := range []string{iniFile, userFile} {
		content, err := os.ReadFile(filepath.Join(b.pooler.RunDir, file))
		if err != nil || strings.Contains(string(content), "secret") || strings.Contains(string(content), "SCRAM") {
			t.Errorf("%s has a password of a client, or none: %v", file, err)
		}
	}
}

func TestNobodyIsSentToAReplicaWhateverTheAgentSays(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.lead(c, 2) // it isn't: it was not promoted yet
	b.until("the pooler uses the replica", func() bool { return b.pooler.Serving() == c.place.Pod })
	answered := make(chan string, 1)
	go func() { // it waits
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT host(inet_server_addr()) || CASE WHEN pg_is_in_recovery() THEN ' as a replica' ELSE '' END").Scan(&got); err != nil {
			got = err.Error()
		}
		answered <- got
	}()
	b.until("the replica was tried", func() bool { return strings.Count(c.Log(), "terminating connection due to administrator command") > 2 })
	select {
	case got := <-answered:
		t.Fatalf("a query was answered: %s", got)
	default:
	}
	c.SQL("SELECT pg_promote()")
	if got := <-answered; got != c.place.Address {
		t.Errorf("a query was answered by %s", got)
	}
}

// An address may become that of another cluster's primary, whose certificate is of the same CA, and whose roles have the same passwords.
func TestNobodyIsSentToAServerOfAnotherClusterThatHasTheAddress(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	other := b.instance(1, standby(t, a, b.port))
	other.SQL("SELECT pg_promote()")
	other.SQL("ALTER SYSTEM SET cluster_name = restored")
	other.Stop()
	other.Start()
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.lead(other, 2)
	b.until("the pooler uses the other server", func() bool { return b.pooler.Serving() == other.place.Pod })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var address string
	if err := conn.QueryRow(ctx, "SELECT host(inet_server_addr())").Scan(&address); err == nil {
		t.Errorf("a query was answered by %s", address)
	}
}
