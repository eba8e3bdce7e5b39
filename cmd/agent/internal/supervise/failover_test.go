package supervise

import (
	"reflect"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAPauseOnTheWallIsMeasuredFromHereOn(t *testing.T) {
	noon, now := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC), 100*time.Second
	for name, c := range map[string]struct {
		said *agentapi.Failover
		want elect.Failover
	}{
		"nothing is said":   {nil, elect.Failover{}},
		"it is over":        {&agentapi.Failover{PausedUntil: noon}, elect.Failover{}},
		"it has an hour":    {&agentapi.Failover{PausedUntil: noon.Add(time.Hour)}, elect.Failover{Paused: now + time.Hour, Pause: "2030-01-02T13:00:00Z"}},
		"isolation is one":  {&agentapi.Failover{IsolationSeconds: 60}, elect.Failover{Isolation: time.Minute}},
		"there is no pause": {&agentapi.Failover{Never: []string{"shop-2"}}, elect.Failover{Never: []string{"shop-2"}}},
	} {
		if got := failoverOf(c.said, noon, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
