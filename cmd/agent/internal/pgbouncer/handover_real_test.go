//go:build postgres

package pgbouncer

import (
	"fmt"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestTransactionsOfManyClientsSurviveAHandover(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(nil)
	load := b.load(20, "postgres")
	b.until("clients are at work", func() bool { return load.done.Load() > 200 })
	begin := time.Now()
	if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
		t.Fatalf("%d poolers have paused, %d have not", paused, late)
	}
	waited := time.Since(begin)
	a.desk.Serve(false)
	a.Stop()
	c.SQL("SELECT pg_promote()")
	promoted := time.Now()
	count := load.done.Load()
	b.lead(c, 2)
	b.until("clients continue", func() bool { return load.done.Load() > count })
	resumed := time.Since(promoted)
	b.until("clients are at work again", func() bool { return load.done.Load() > count+200 })
	load.end()
	t.Logf("paused within %v, the first transaction %v after the promotion; longest wait %v, %d transactions", waited, resumed, time.Duration(load.longest.Load()), load.done.Load())
	if failed := load.failed.Load(); failed != 0 {
		t.Errorf("%d transactions have failed: %v", failed, load.first.Load())
	}
	if rows := c.SQL("SELECT count(*) FROM t"); rows != fmt.Sprint(load.done.Load()) {
		t.Errorf("%s rows, %d were acknowledged", rows, load.done.Load())
	}
}

// PAUSE breaks off a login that is under way, and PgBouncer would answer who comes next with an error, until another one has succeeded.
func TestHandoversWhileConnectionsAreOpenedFailNobody(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.PoolSize = 4 })
	load := b.loadWithPauses(30, "postgres", 5*time.Millisecond)
	b.until("clients are at work", func() bool { return load.done.Load() > 200 })
	for range 6 {
		if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
			t.Fatalf("%d poolers have paused, %d have not", paused, late)
		}
		count := load.done.Load()
		a.desk.TakeBack()
		b.until("the first client continues", func() bool { return load.done.Load() > count })
	}
	load.end()
	t.Logf("longest wait %v, %d transactions", time.Duration(load.longest.Load()), load.done.Load())
	if failed := load.failed.Load(); failed != 0 {
		t.Errorf("%d transactions have failed: %v", failed, load.first.Load())
	}
}

func TestAHandoverThatNobodyEndsIsOverByItself(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	a.desk.Pause(t.Context())
	begin := time.Now()
	b.asked(conn)
	if took := time.Since(begin); took < pauseLimit/2 || took > pauseLimit+5*time.Second {
		t.Errorf("the client waited for %v", took)
	}
}

func TestAPauseThatNobodyHoldsIsOverByItself(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	if err := b.pooler.bouncer.do(t.Context(), "PAUSE"); err != nil { // as one that was sent just before it was to end
		t.Fatal(err)
	}
	begin := time.Now()
	b.asked(conn)
	if took := time.Since(begin); took > 2*lookTime {
		t.Errorf("the client waited for %v", took)
	}
}

func TestAHandoverThatIsTakenBackEndsNoTransaction(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.TakeBack = true })
	idle, busy := b.connect(), b.connect()
	b.asked(idle)
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	a.desk.Acknowledge = routing.Patience // on a busy machine it may take more than a second to say so
	if paused, late := a.desk.Pause(t.Context()); paused != 0 || late != 1 {
		t.Errorf("%d poolers have paused, %d have not", paused, late)
	}
	if against := a.desk.Against(); len(against) != 1 || against[0] != "pool-1" {
		t.Errorf("against the handover are %v", against)
	}
	a.desk.TakeBack()
	b.asked(idle)
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}
