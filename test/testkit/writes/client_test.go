//go:build postgres

package writes

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/pgtest"
)

func server(t *testing.T) (*pgtest.Server, Target) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	s := pgtest.Start(t, pgtest.Options{
		HBA:    "local all all trust\nhost all all 127.0.0.1/32 trust\n",
		Params: map[string]string{"listen_addresses": "127.0.0.1", "port": strconv.Itoa(port), "unix_socket_directories": ""},
	})
	return s, Target{Address: "127.0.0.1", Port: uint16(port), Database: "postgres", User: "postgres"}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s within 30 s", what)
		}
	}
}

func TestClientsWriteThroughARestartAndKnowWhatIsThere(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	s, target := server(t)
	if err := Prepare(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	kept, fresh := &Client{Name: "kept", Target: target, Keep: true}, &Client{Name: "fresh", Target: target}
	for _, client := range []*Client{kept, fresh} {
		client.Start(t.Context())
		await(t, "rows", func() bool { return len(client.Acks()) >= 10 })
	}
	s.Kill()
	await(t, "error", func() bool { return kept.LastError() != nil && fresh.LastError() != nil })
	if kept.Unbroken() > 0 || fresh.Unbroken() > 0 {
		t.Errorf("%d and %d rows are said to have followed the failure", kept.Unbroken(), fresh.Unbroken())
	}
	var away []time.Duration // at least, as either sees it
	for _, client := range []*Client{kept, fresh} {
		away = append(away, time.Since(client.Acks()[len(client.Acks())-1].At))
	}
	s.Start()
	var acks []Ack
	for i, client := range []*Client{kept, fresh} {
		before := len(client.Acks())
		await(t, "rows after the restart", func() bool { return len(client.Acks()) >= before+10 && client.Unbroken() >= 10 })
		client.Stop()
		if gap := Longest(client.Acks(), client.Acks()[0].At, client.Acks()[len(client.Acks())-1].At); gap < away[i] {
			t.Errorf("the server was away for %s, and %s saw no gap but %s", away[i], client.Name, gap)
		}
		acks = append(acks, client.Acks()...)
	}
	present, err := Present(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	if lost := Lost(acks, present); len(lost) > 0 || len(present) < 40 {
		t.Errorf("of %d rows %d are lost", len(present), len(lost))
	}
	if len(Doubled(acks, nil)) > 0 || Failovers(acks) > 0 || acks[0].Server != "127.0.0.1" || acks[0].Timeline != "00000001" {
		t.Errorf("%d failovers of one server, which is %s", Failovers(acks), acks[0].Reign())
	}
	if err := Clear(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if present, err := Present(t.Context(), target); err != nil || len(present) > 0 {
		t.Errorf("after it was cleared there are %d rows, %v", len(present), err)
	}
}

func TestAStatementThatHangsIsGivenUpAndMeasured(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	_, target := server(t)
	if err := Prepare(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	client := &Client{Name: "kept", Target: target, Keep: true, Patience: 200 * time.Millisecond}
	client.Start(t.Context())
	defer client.Stop()
	await(t, "rows", func() bool { return len(client.Acks()) >= 3 })
	lock, err := target.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close(t.Context())
	// The statement that will hang begins after this row, but not after the lock: it may be on its way by then.
	began := client.Acks()[len(client.Acks())-1].At
	if _, err := lock.Exec(t.Context(), "BEGIN; LOCK TABLE "+Table); err != nil {
		t.Fatal(err)
	}
	await(t, "error", func() bool { return client.LastError() != nil })
	if _, err := lock.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	before := len(client.Acks())
	await(t, "rows after it", func() bool { return len(client.Acks()) > before })
	if gap := Longest(client.Acks(), began, time.Now()); gap < client.Patience {
		t.Errorf("a gap of %s is measured", gap)
	}
}

func TestACommitThatIsCancelledWhileItWaitsForAReplicaIsNotAcknowledged(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	_, target := server(t)
	if err := Prepare(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	looking := &Client{Name: "looks", Target: target, Keep: true, Looks: true}
	looking.Start(t.Context())
	defer looking.Stop()
	await(t, "look at a server that accepts writes", func() bool { return len(looking.Acks()) > 0 })
	other, err := target.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"} {
		if _, err := other.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	client := &Client{Name: "kept", Target: target, Keep: true, Patience: time.Minute}
	client.Start(t.Context())
	defer client.Stop()
	await(t, "cancelled commit", func() bool {
		_, err := other.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		return err == nil && errors.Is(client.LastError(), errWarned)
	})
	before := len(client.Acks())
	if present, err := Present(t.Context(), target); err != nil || len(present) <= before {
		t.Errorf("%d rows are acknowledged, and %d are there, %v", before, len(present), err)
	}
}
