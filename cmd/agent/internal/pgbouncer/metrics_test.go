package pgbouncer

import "testing"

func TestPoolsWhoseNamesAreNoTextHaveNoMetrics(t *testing.T) {
	rows := []map[string]string{
		{"database": "\xff", "user": "app"}, {"database": "shop", "user": "\xff"}, {"database": "pgbouncer", "user": "pgbouncer"},
		{"database": "shop", "user": "app"}, {"database": "größe"},
	}
	if got := shown(rows); len(got) != 2 || got[0]["user"] != "app" || got[1]["database"] != "größe" {
		t.Errorf("there are metrics of %q", got)
	}
}
