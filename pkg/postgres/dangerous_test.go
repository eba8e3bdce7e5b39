package postgres

import "testing"

func TestParametersThatHarmAreDangerous(t *testing.T) {
	for _, c := range []struct {
		name, value string
		synchronous bool
		want        bool
	}{
		{"ignore_system_indexes", "off", false, true}, {"autovacuum", "OFF", false, true}, {"autovacuum", "on", false, false},
		{"track_counts", "f", false, true}, {"track_counts", "True", false, false}, {"log_min_messages", "panic", false, true},
		{"log_min_messages", "error", false, false}, {"synchronous_commit", "off", false, false}, {"synchronous_commit", "local", true, true},
		{"synchronous_commit", "remote_apply", true, false}, {"work_mem", "8MB", true, false},
	} {
		if got := Dangerous(c.name, c.value, c.synchronous); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
