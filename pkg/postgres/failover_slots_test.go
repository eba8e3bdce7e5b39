package postgres

import "testing"

func TestLogicalSlotsAreCopiedWhereTheyCanBe(t *testing.T) {
	for name, c := range map[string]struct {
		major int
		asked map[string]string
		want  bool
	}{
		"17 with logical WAL":            {17, map[string]string{"wal_level": "logical"}, true},
		"16 can't":                       {16, map[string]string{"wal_level": "logical"}, false},
		"without logical WAL":            {18, map[string]string{"wal_level": "replica"}, false},
		"nothing is asked for":           {18, nil, false},
		"feedback is wanted":             {18, map[string]string{"wal_level": "logical", "hot_standby_feedback": "on"}, true},
		"no feedback is wanted":          {18, map[string]string{"wal_level": "logical", "hot_standby_feedback": "Off"}, false},
		"a person doesn't want them":     {18, map[string]string{"wal_level": "logical", "sync_replication_slots": "false"}, false},
		"PostgreSQL is to judge a value": {18, map[string]string{"wal_level": "logical", "sync_replication_slots": "maybe"}, true},
	} {
		if got := KeepsFailoverSlots(c.major, c.asked); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
