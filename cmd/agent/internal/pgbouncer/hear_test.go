package pgbouncer

import (
	"log/slog"
	"testing"
	"time"
)

// Its agent may go on saying that it serves.
func TestAServerThatHasEndedASessionIsDoubtedUntilItAcceptsOne(t *testing.T) {
	server, other := place{"shop-0", "10.0.0.1", 5432}, place{"shop-1", "10.0.0.2", 5432}
	p := New(Options{Log: slog.New(slog.DiscardHandler)})
	p.poller, p.servers, p.endPause = newPoller("", 0, nil), []place{server}, func() {}
	feel := func(what string, s sign, doubted bool) {
		t.Helper()
		if err := p.feel(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := p.doubts(server, time.Now()); got != doubted {
			t.Errorf("%s: doubted: %t", what, got)
		}
	}
	later := func() { // than its agent may know it
		p.doubted = p.doubted.Add(-doubt)
	}
	feel("it starts, and nobody was sent elsewhere", sign{server, starting}, false)
	feel("another one ends a session", sign{other, ended}, false)
	feel("it ends a session", sign{server, ended}, true)
	feel("another one accepts one", sign{other, alive}, true)
	later()
	feel("it is silent", sign{other, alive}, false)
	feel("it recovers", sign{server, starting}, true)
	feel("it accepts a session", sign{server, alive}, false)
	p.mind.handover = "1.1"
	feel("it ends a session in a handover", sign{server, ended}, false)
}
