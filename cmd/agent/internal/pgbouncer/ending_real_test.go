//go:build postgres

package pgbouncer

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAPoolerEndsItsClientsTransactionsFirst(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.DrainSeconds = 1 })
	conn := b.connect()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.until("the pooler is not ready", func() bool { return b.pooler.Ready() != nil })
	begin := time.Now()
	for time.Since(begin) < 2*time.Second { // beyond the time to drain
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	b.ended <- nil
}

// A node that is drained may have had the primary and a pooler.
func TestAPoolerThatIsToEndKeepsClientsWaitingInAHandover(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.DrainSeconds = 3600 })
	conn := b.connect()
	b.asked(conn)
	b.stop()
	b.until("clients may go", func() bool { return b.pooler.Ready() != nil })
	a.desk.Acknowledge = routing.Patience // on a busy machine it may take more than a second to say so
	if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
		t.Errorf("%d poolers have paused, %d have not", paused, late)
	}
	a.desk.Serve(false)
	a.Stop()
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	if got := b.asked(conn); got != c.place.Address {
		t.Errorf("sent to %s", got)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-b.ended; err != nil { // long before the time to drain is over
		t.Error(err)
	}
	b.ended <- nil
}
