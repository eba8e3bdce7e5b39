package cluster

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestATryThatCostNothingIsSoonRepeated(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		last  *agentapi.SwitchoverStatus
		after time.Duration // until it is another try
	}{
		"none was made":           {nil, time.Minute},
		"the primary was stopped": {&agentapi.SwitchoverStatus{State: agentapi.SwitchoverRefused}, time.Minute},
		"it was refused at once":  {&agentapi.SwitchoverStatus{State: agentapi.SwitchoverRefused, Untouched: true}, unknownInterval},
	} {
		if tryOf(c.last, begin) != tryOf(c.last, begin.Add(c.after-time.Second)) || tryOf(c.last, begin) == tryOf(c.last, begin.Add(c.after)) {
			t.Errorf("%s: it is not repeated after %v", name, c.after)
		}
	}
}
