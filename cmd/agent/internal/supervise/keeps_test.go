package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestACopyThatWasReplacedStaysWhileRepairsArePaused(t *testing.T) {
	paused := &agentapi.Repair{PausedFrom: time.Now().Add(-time.Minute), PausedUntil: time.Now().Add(time.Hour)}
	over := &agentapi.Repair{PausedFrom: time.Now().Add(-time.Hour), PausedUntil: time.Now().Add(-time.Minute)}
	for name, c := range map[string]struct {
		repair *agentapi.Repair
		scarce bool
		want   bool
	}{
		"nothing is set":             {nil, false, false},
		"a pause":                    {paused, false, true},
		"a pause that is over":       {over, false, false},
		"a pause on a full volume":   {paused, true, false},
		"copies are kept":            {&agentapi.Repair{KeepCopies: true}, false, true},
		"the same, on a full volume": {&agentapi.Repair{KeepCopies: true}, true, true},
	} {
		l := &latest{}
		l.set(inputs{config: agentapi.Config{Repair: c.repair}})
		if got := l.keepsReplaced(c.scarce); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
