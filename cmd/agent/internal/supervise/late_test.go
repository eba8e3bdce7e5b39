package supervise

import (
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/replicate"
)

func TestADelayedReplicaThatIsNotToReplayYetIsNotStuck(t *testing.T) {
	for name, c := range map[string]struct {
		found   replicate.Position
		delayed bool
		stuck   bool
	}{
		"it waits for the time of the next commit": {replicate.Position{Waiting: true}, true, false},
		"somebody has paused it":                   {replicate.Position{Paused: true}, true, false},
		"it waits for WAL":                         {replicate.Position{}, true, true},
		"one that is not delayed has paused":       {replicate.Position{Paused: true}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := progress{}
			p.note(c.found, true, false, c.delayed)
			if stuck, _, _ := p.verdict(); stuck.IsZero() == c.stuck {
				t.Errorf("stuck since %v", stuck)
			}
		})
	}
}
