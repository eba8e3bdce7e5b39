package supervise

import (
	"context"
	"testing"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestTheFirstStartEndsWhenTheServerServesOrCannot(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		status agentapi.Status
		want   bool
	}{
		"it starts":                {agentapi.Status{State: agentapi.StateStarting}, false},
		"nobody knows as what yet": {agentapi.Status{State: agentapi.StateRunning}, false},
		"it runs":                  {agentapi.Status{State: agentapi.StateRunning, Role: roleReplica}, true},
		"it ended, and is retried": {agentapi.Status{State: agentapi.StateStopped}, false},
		"it can't":                 {agentapi.Status{State: agentapi.StateFailed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState("shop-0")
			s.set(func(status *agentapi.Status) { *status = test.status })
			if got := s.Started(over); got != test.want {
				t.Errorf("started: %t", got)
			}
			s.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopped, "" })
			if got := s.Started(over); got != test.want {
				t.Errorf("after it has stopped, started: %t", got)
			}
		})
	}
}
