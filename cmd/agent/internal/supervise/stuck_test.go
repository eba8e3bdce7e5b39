package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
)

func TestWhatCountsAsAStandstill(t *testing.T) {
	asleep := postmaster.Recovery{Doing: "recovering 000000010000000000000003", Received: 300, Asleep: true}
	with := func(change func(*postmaster.Recovery)) postmaster.Recovery {
		r := asleep
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		then    postmaster.Recovery
		silent  bool // the primary
		counted bool
	}{
		"nothing changes":                     {asleep, false, true},
		"the receiver begins again":           {with(func(r *postmaster.Recovery) { r.Received = 100 }), false, true},
		"there is no receiver at the moment":  {with(func(r *postmaster.Recovery) { r.Received = 0 }), false, true},
		"WAL comes":                           {with(func(r *postmaster.Recovery) { r.Received = 301 }), false, false},
		"the next segment":                    {with(func(r *postmaster.Recovery) { r.Doing = "recovering 000000010000000000000004" }), false, false},
		"it works, or runs a restore_command": {with(func(r *postmaster.Recovery) { r.Asleep = false }), false, false},
		"nothing can be seen":                 {with(func(r *postmaster.Recovery) { *r = postmaster.Recovery{} }), false, false},
		"the primary does not respond":        {asleep, true, false},
	} {
		begin := time.Now()
		s := stuckRecovery{}
		s.note(begin, asleep, true)
		if still := s.note(begin.Add(30*time.Second), asleep, true); still != 30*time.Second {
			t.Fatalf("it stands still for %v", still)
		}
		want := 0 * time.Second
		if c.counted {
			want = time.Minute
		}
		if still := s.note(begin.Add(time.Minute), c.then, !c.silent); still != want {
			t.Errorf("%s: it stands still for %v", name, still)
		}
	}
}
