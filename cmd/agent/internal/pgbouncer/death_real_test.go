//go:build postgres

package pgbouncer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// An agent says a moment later than its server's clients notice it that the server has died.
func TestClientsWaitAsSoonAsTheServerDiesWhateverItsAgentSays(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(nil)
	load := b.loadWithPauses(30, "postgres", 50*time.Millisecond)
	b.until("clients are at work", func() bool { return load.done.Load() > 100 })
	waiting := func() bool { now, _, _ := b.pooler.waits(); return now == 1 }
	a.Kill()
	b.until("clients wait", waiting)
	time.Sleep(300 * time.Millisecond) // as long as a busy machine needs until the agent has died, too
	if !waiting() {
		t.Error("the word of the agent is taken for the server's")
	}
	a.Start()
	count := load.done.Load()
	b.until("clients continue", func() bool { return load.done.Load() > count+50 })
	load.end()
	t.Logf("longest wait %v, %d transactions, %d failed, %d of them refused", time.Duration(load.longest.Load()), load.done.Load(), load.failed.Load(), load.refused.Load())
	if refused := load.refused.Load(); refused > 10 { // PgBouncer may refuse those who come within a few milliseconds
		t.Errorf("%d of 30 clients were refused", refused)
	}
}

// On a busy machine, the processes of a server that was killed end one after the other.
func TestClientsWaitAsSoonAsAServerRefusesThemThatHasDroppedAConnection(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	watched := ""
	b.until("the server is watched", func() bool {
		watched = a.SQL("SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name = 'howdah_pooler'")
		return watched != "0"
	})
	pid, err := strconv.Atoi(watched)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(a.PID(), syscall.SIGKILL); err != nil { // the others end by themselves
		t.Fatal(err)
	}
	b.until("the connection ends", func() bool {
		_, err := tx.Exec(t.Context(), "SELECT 1")
		return err != nil
	})
	b.until("clients wait", func() bool { now, _, _ := b.pooler.waits(); return now == 1 })
}

func TestClientsGoOnAtOnceWhereTheirConnectionsWereTerminatedAndTheServerLives(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	var open []pgx.Tx
	for range 5 {
		tx, err := b.connect().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
	}
	a.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	b.until("clients wait", func() bool { _, times, _ := b.pooler.waits(); return times > 0 })
	begin := time.Now()
	b.asked(b.connect())
	if took := time.Since(begin); took > doubt/2 {
		t.Errorf("a client waited for %v", took)
	}
	for _, tx := range open {
		_ = tx.Rollback(t.Context())
	}
}

func transaction(ctx context.Context, conn *pgx.Conn, client, n int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", client, n); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func TestAClientBetweenTransactionsOnlyWaitsWhenThePrimaryDiesAndOneInATransactionGetsOneError(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	idle, busy := b.connect(), b.connect()
	b.asked(idle)
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(a.PID(), syscall.SIGSTOP); err != nil { // what a lost node looks like: nothing answers
		t.Fatal(err)
	}
	backends := a.frozen(t)
	defer backends()
	_ = a.api.Close()
	answered := make(chan string, 1)
	go func() {
		var address string
		if err := idle.QueryRow(t.Context(), "SELECT host(inet_server_addr())").Scan(&address); err != nil {
			address = err.Error()
		}
		answered <- address
	}()
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	if got := <-answered; got != c.place.Address {
		t.Errorf("the idle client got %s", got)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a transaction continues that was open on the former primary")
	} else {
		t.Log(err)
	}
}

// frozen stops all processes of a server, until the returned function is called.
func (i *instance) frozen(t *testing.T) func() {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		content, err := os.ReadFile(entry)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry))); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(i.PID()) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range append(pids, i.PID()) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}
