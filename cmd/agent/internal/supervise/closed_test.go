//go:build postgres

package supervise

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// newUnreplicated makes a pair whose primary has a commit that waits for its replica, which is away.
func newUnreplicated(t *testing.T) *pair {
	t.Helper()
	two, _ := newPair(t)
	two.first.crash = time.Minute // a busy machine takes its time
	config := two.first.config
	config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
	two.first.configure(config)
	two.second.configure(config)
	two.run()
	two.first.awaitStatus("have a quorum", func(s agentapi.Status) bool { return s.Election != nil && s.Election.Quorum == 1 })
	app := two.app(t)
	if _, err := app.Exec(t.Context(), "CREATE TABLE t (n int)"); err != nil {
		t.Fatal(err)
	}
	two.second.terminate(time.Minute)
	go app.Exec(context.WithoutCancel(t.Context()), "INSERT INTO t VALUES (1)") // it ends with the server
	two.first.await("let the commit wait", func() bool {
		return two.first.sql("SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'app'") == "1"
	})
	return two
}

// app is a client of the primary.
func (c *pair) app(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := c.first.connect("app", "first", "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// awaitRefused waits until the server is back, and looks that clients can't read the row that could be lost.
func (c *pair) awaitRefused(t *testing.T) {
	t.Helper()
	c.first.await("refuse clients", func() bool {
		conn, err := c.first.connect("app", "first", "shop", "")
		if err == nil {
			var rows int
			if conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows) == nil && rows > 0 {
				t.Fatal("a client reads a commit that a failover would undo")
			}
		}
		var said *pgconn.PgError
		return errors.As(err, &said) && said.Code == "28000"
	})
	c.first.awaitStatus("say what it waits for", func(s agentapi.Status) bool {
		return strings.Contains(s.Closed, "until 1 of shop-1 have all its WAL up to")
	})
}

// awaitOpen waits until clients read the row.
func (c *pair) awaitOpen(t *testing.T) {
	t.Helper()
	c.first.await("let clients in", func() bool {
		conn, err := c.first.connect("app", "first", "shop", "")
		if err != nil {
			return false
		}
		var rows int
		return conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows) == nil && rows == 1
	})
	c.first.awaitStatus("say so", func(s agentapi.Status) bool { return s.Closed == "" })
	if !c.first.public.ready() {
		t.Error("clients are not led to it")
	}
}

func TestAfterACrashClientsReadNothingThatAFailoverWouldUndo(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := newUnreplicated(t)
	before := two.first.pid()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	two.first.await("come back", func() bool { pid, err := two.first.readPID(); return err == nil && pid != before })
	two.awaitRefused(t)
	two.second.start()
	two.awaitOpen(t)
}

// The crash of a session is one of the server: PostgreSQL would recover by itself, and let clients in at once.
func TestAfterTheCrashOfASessionClientsReadNothingThatAFailoverWouldUndo(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := newUnreplicated(t)
	victim, err := strconv.Atoi(two.first.sql("SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'walwriter'"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	two.awaitRefused(t)
	two.second.start()
	two.awaitOpen(t)
}

// A person who gives synchronous replication up lets clients in.
func TestAClosedPrimaryOpensWhenCommitsNeedNotWaitAnyMore(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two := newUnreplicated(t)
	if err := syscall.Kill(two.first.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	two.awaitRefused(t)
	config := two.first.config
	config.Synchronous = nil
	two.first.configure(config)
	two.awaitOpen(t)
}
