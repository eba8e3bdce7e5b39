//go:build postgres

package pgbouncer

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestAReaderInATransactionOnAFrozenReplicaThatReadersAreNotSentToGetsAnError(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	primary := b.instance(0, nil)
	b.roles(primary)
	first, second := b.instance(1, standby(t, primary, b.port)), b.instance(2, standby(t, primary, b.port))
	primary.desk.Serve(true)
	primary.desk.Replicas([]routing.Replica{replica(first, 0)})
	b.lead(primary, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.ReadOnly, c.MaxLagBytes = true, 100 })
	frozen, err := b.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frozen.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	primary.desk.Replicas([]routing.Replica{replica(second, 0)})
	b.sends(second)
	if _, err := frozen.Exec(t.Context(), "SELECT 1"); err != nil { // the replica only lags
		t.Fatal(err)
	}
	first.freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), silentTime+30*time.Second)
	defer cancel()
	if _, err := frozen.Exec(ctx, "SELECT 1"); err == nil || ctx.Err() != nil {
		t.Errorf("the reader waits: %v", err)
	} else {
		t.Log(err)
	}
}

func TestAReaderOnAReplicaThatLagsContinuesItsTransaction(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	primary, first, conn := b.readers(func(c *agentapi.PoolerConfig) { c.KnownLagOnly = false })
	second := b.instance(2, standby(t, primary, b.port))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	primary.desk.Replicas([]routing.Replica{replica(first, 1000), replica(second, 0)})
	b.sends(second)
	for begin := time.Now(); time.Since(begin) < silentTime+2*silentTry+2*lookTime; time.Sleep(time.Second) {
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAPgBouncerThatHangsIsEnded(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	if err := b.pooler.bouncer.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-b.ended:
		if err == nil {
			t.Error("the pooler has ended as if it was told to")
		}
		b.ended <- err
	case <-time.After(hungTime + 30*time.Second):
		_ = b.pooler.bouncer.process.Process.Signal(syscall.SIGCONT)
		t.Error("the pooler waits for it")
	}
}

// Whoever connects and says nothing takes a file descriptor of PgBouncer for a minute. Those that are there are kept waiting in a handover all the same.
func TestClientsThatTakeAllFileDescriptorsDontKeepOthersFromWaitingInAHandover(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.limit = 64
	b.run(func(c *agentapi.PoolerConfig) { c.MaxClientConnections = 20 })
	conn := b.connect()
	b.asked(conn)
	b.until("a session for a pause is open", func() bool { return b.pooler.bouncer.prepare(t.Context()) == nil })
	for range 200 {
		idle, err := net.DialTimeout("tcp", net.JoinHostPort("localhost", strconv.Itoa(b.pooler.Port)), time.Second)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = idle.Close() })
	}
	time.Sleep(time.Second) // until PgBouncer has accepted what it can
	a.desk.Acknowledge = routing.Patience
	if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
		t.Errorf("%d poolers have paused, %d have not", paused, late)
	}
	a.desk.TakeBack()
	if err := b.pooler.bouncer.answers(t.Context()); err != nil { // it would be ended after a while
		t.Errorf("PgBouncer is taken for one that hangs: %v", err)
	}
	b.untilWithin(20*time.Second, "the client continues", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, "SELECT 1")
		return err == nil
	})
}

// With other parameters of TLS at the server, PgBouncer breaks logins there off, and answers who comes next with an error.
func TestAChangeOfHowServersAreReachedFailsNobody(t *testing.T) {
	subset.OnlyInFull(t)
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	a.SQL("ALTER SYSTEM SET post_auth_delay = 1")
	a.SQL("SELECT pg_reload_conf()")
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.PoolSize = 2
		c.Parameters = map[string]string{"server_lifetime": "6"}
	})
	load := b.loadWithPauses(20, "postgres", 5*time.Millisecond)
	b.until("clients are at work", func() bool { return load.done.Load() > 50 })
	for n := range 8 {
		b.asks(map[string]string{"server_lifetime": "6", "server_tls_protocols": []string{"tlsv1.3", "tlsv1.2,tlsv1.3"}[n%2]})
		count := load.done.Load()
		time.Sleep(lookTime + 2*tickTime + time.Second)
		b.until("clients continue", func() bool { return load.done.Load() > count+20 })
	}
	load.end()
	t.Logf("longest wait %v, %d transactions", time.Duration(load.longest.Load()), load.done.Load())
	if failed := load.failed.Load(); failed != 0 {
		t.Errorf("%d transactions have failed: %v", failed, load.first.Load())
	}
}
