package member

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

func TestAServerStaysGuardedUntilItIsDownOrAReplicaAgain(t *testing.T) {
	var permitted time.Duration
	m := New(Options{
		Now:    func() time.Duration { return time.Second },
		Permit: func(until time.Duration) { permitted = until },
	}, elect.Config{})
	m.Report(elect.Server{Mode: elect.Replica})
	m.want = elect.Want{Role: elect.Lead, Until: 8 * time.Second}
	if !m.Guard() {
		t.Fatal("there is no permission")
	}
	for _, mode := range []elect.Mode{elect.Replica, elect.Starting, elect.Primary} { // the first is of an earlier version
		if m.Report(elect.Server{Mode: mode}); permitted != 8*time.Second {
			t.Fatalf("mode %d: permitted until %v", mode, permitted)
		}
	}
	if m.Report(elect.Server{Mode: elect.Down}); permitted != elect.Forever {
		t.Errorf("permitted until %v", permitted)
	}
}
