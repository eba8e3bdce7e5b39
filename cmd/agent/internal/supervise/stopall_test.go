//go:build postgres

package supervise

import (
	"context"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// commits writes numbered rows into the server of a pod until that ends, and then says how many were acknowledged.
func (p *pod) commits() <-chan int {
	p.t.Helper()
	conn, err := p.connect("app", "first", "shop", "")
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := conn.Exec(p.t.Context(), "CREATE TABLE numbered (n int)"); err != nil {
		p.t.Fatal(err)
	}
	acknowledged := make(chan int, 1)
	go func() {
		n := 0
		for {
			if _, err := conn.Exec(context.Background(), "INSERT INTO numbered VALUES ($1)", n+1); err != nil {
				break
			}
			n++
		}
		acknowledged <- n
	}()
	return acknowledged
}

// rows that a pod's server has of those.
func (p *pod) rows() int {
	p.t.Helper()
	conn, err := p.connect("app", "first", "shop", "")
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	if err := conn.QueryRow(p.t.Context(), "SELECT count(DISTINCT n) FROM numbered").Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// Hibernation and `kubectl delete pods --all` end the replicas while clients still write, and start them in any order.
func TestAnOrderlyStopOfAllInstancesLosesNoAcknowledgedRow(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	acknowledged := two.first.commits()
	two.second.await("be able to take over", func() bool { return len(two.second.agent.Status().Election.Members) == 1 })
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	want := <-acknowledged
	two.second.start()
	two.second.await("say whom it waits for, or take over", func() bool {
		election := two.second.agent.Status().Election
		return two.second.public.ready() || two.second.agent.Status().State == agentapi.StateRunning && election != nil && strings.Contains(election.Waiting, "shop-0")
	})
	two.first.start()
	two.first.await("have a primary", func() bool { return two.first.public.ready() || two.second.public.ready() })
	primary := two.first
	if two.second.public.ready() {
		primary = two.second
	}
	if got := primary.rows(); got < want {
		t.Errorf("%d rows were acknowledged before the stop, and %s has %d of them after it", want, primary.name, got)
	}
}
