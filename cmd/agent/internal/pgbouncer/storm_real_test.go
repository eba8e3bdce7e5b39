//go:build postgres

package pgbouncer

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

const (
	storming = 2000
	pool     = 20
)

// TestAStormOfClientsReachesTheServerAsAQueue has 2,000 clients come in one moment, and all of them again in the moment after a failover. None
// gets an error, and the server never has more sessions than the pool.
func TestAStormOfClientsReachesTheServerAsAQueue(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.PoolSize, c.MaxClientConnections = pool, storming+500
		c.Parameters = map[string]string{"client_login_timeout": "600", "query_wait_timeout": "600"} // however slow the machine is
	})

	s := &storm{bed: b, clients: make([]*pgx.Conn, storming)}
	most := a.sessions(t)
	s.all("come", func(n int) (err error) {
		s.clients[n], err = pgx.Connect(t.Context(), b.databaseDSN("postgres"))
		if err != nil {
			return err
		}
		return transaction(t.Context(), s.clients[n], n, 0)
	})
	if got := most(); got > pool || got == 0 {
		t.Errorf("the server had %d sessions of clients", got)
	}

	a.Kill()
	c.SQL("SELECT pg_promote()")
	most = c.sessions(t)
	b.lead(c, 2)
	s.all("come again", func(n int) error { return transaction(t.Context(), s.clients[n], n, 1) })
	if got := most(); got > pool || got == 0 {
		t.Errorf("the new primary had %d sessions of clients", got)
	}
	if rows := c.SQL("SELECT count(*) FROM t WHERE n = 1"); rows != "2000" {
		t.Errorf("%s rows of 2,000 were written after the failover", rows)
	}
}

// storm are clients that do something all at once.
type storm struct {
	bed     *bed
	clients []*pgx.Conn
}

func (s *storm) all(what string, do func(n int) error) {
	s.bed.t.Helper()
	var (
		each   sync.WaitGroup
		failed atomic.Int64
		first  atomic.Value
	)
	begin := time.Now()
	for n := range s.clients {
		each.Go(func() {
			if err := do(n); err != nil {
				failed.Add(1)
				first.CompareAndSwap(nil, err.Error())
			}
		})
	}
	each.Wait()
	s.bed.t.Logf("%d clients %s within %v", len(s.clients), what, time.Since(begin).Round(time.Millisecond))
	if n := failed.Load(); n > 0 {
		s.bed.t.Fatalf("%d of %d clients that %s have failed: %v", n, len(s.clients), what, first.Load())
	}
}

// sessions watches how many sessions of clients a server has, until the function that it returns is called, which says the most of them.
func (i *instance) sessions(t *testing.T) (most func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := pgx.Connect(ctx, "host="+i.SocketDir+" port=5432 user=postgres dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	seen, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var now int
			if conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'").Scan(&now) == nil {
				seen = max(seen, now)
			}
			<-tick.C
		}
	}()
	return func() int {
		cancel()
		<-ended
		_ = conn.Close(context.WithoutCancel(t.Context()))
		return seen
	}
}
