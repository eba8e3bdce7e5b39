package rolling

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/pace"
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
		"it was refused at once":  {&agentapi.SwitchoverStatus{State: agentapi.SwitchoverRefused, Untouched: true}, pace.UnknownInterval},
	} {
		if tryOf(c.last, begin) != tryOf(c.last, begin.Add(c.after-time.Second)) || tryOf(c.last, begin) == tryOf(c.last, begin.Add(c.after)) {
			t.Errorf("%s: it is not repeated after %v", name, c.after)
		}
	}
}

func TestATryThatStoppedThePrimaryIsRepeatedInTheNextMinute(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 3, 0, time.UTC)
	refused := func(at time.Time, last *agentapi.SwitchoverStatus, untouched bool) *agentapi.SwitchoverStatus {
		return &agentapi.SwitchoverStatus{Token: "roll.uid." + tryOf(last, at), State: agentapi.SwitchoverRefused, Untouched: untouched}
	}
	asks := func(last *agentapi.SwitchoverStatus, at time.Time) bool {
		return due(last, "roll.uid."+tryOf(last, at))
	}
	first := refused(begin, nil, true)
	if asks(first, begin.Add(time.Second)) || !asks(first, begin.Add(3*time.Second)) {
		t.Error("the first try is not repeated in the next five seconds")
	}
	second := refused(begin.Add(3*time.Second), first, false)
	if asks(second, begin.Add(4*time.Second)) || asks(second, begin.Add(56*time.Second)) || !asks(second, begin.Add(58*time.Second)) {
		t.Error("the second try, for which the primary was stopped, is not repeated in the next minute")
	}
}
