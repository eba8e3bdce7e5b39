package member

import (
	"encoding/json"
	"testing"
)

func TestOnlyTheWordOfKubernetesProvesThatAContainerHasEnded(t *testing.T) {
	const started = "2026-11-21T20:00:05Z"
	for name, c := range map[string]struct {
		status       string
		has, forGood bool
	}{
		"it runs":              {`{"state":{"running":{"startedAt":"2026-11-21T20:00:04Z"}}}`, false, false},
		"it has ended":         {`{"state":{"terminated":{"finishedAt":"2026-11-21T20:03:00Z"}}}`, true, false},
		"an earlier one ended": {`{"state":{"terminated":{"finishedAt":"2026-11-21T19:59:00Z"}}}`, false, false},
		"the one before ended in the same second": {`{"state":{"terminated":{"finishedAt":"2026-11-21T20:00:06Z"}}}`, false, false},
		"it waits for another go":                 {`{"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"finishedAt":"2026-11-21T20:03:00Z"}}}`, true, true},
		"another one runs again":                  {`{"state":{"running":{}},"lastState":{"terminated":{"finishedAt":"2026-11-21T20:03:00Z"}}}`, false, false},
		"it waits for its image":                  {`{"state":{"waiting":{"reason":"ImagePullBackOff"}}}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := pod{}
			text := `{"metadata":{"uid":"u1"},"status":{"containerStatuses":[{"name":"side","state":{"terminated":{"finishedAt":"2026-11-21T20:03:00Z"}}},{"name":"postgres",` + c.status[1:] + `]}}`
			if err := json.Unmarshal([]byte(text), &found); err != nil {
				t.Fatal(err)
			}
			if has, forGood := found.ended("u1", started); has != c.has || forGood != c.forGood {
				t.Errorf("ended %v, for good %v", has, forGood)
			}
			if has, _ := found.ended("u2", started); has {
				t.Error("it is another pod")
			}
		})
	}
}
