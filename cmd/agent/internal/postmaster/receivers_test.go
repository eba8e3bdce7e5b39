package postmaster

import "testing"

func TestOnlyClientsThatAreNoReplicasAreDisconnectedAtAShutdown(t *testing.T) {
	for title, want := range map[string]bool{
		"postgres: shop: walsender postgres postgres [local] START_REPLICATION": true,
		"postgres: walsender cdc shop 10.0.0.7(4711) streaming 0/40116F8":       true,
		"postgres: shop: walsender app [local] streaming 0/40116F8":             true,
		"postgres: shop: walsender howdah_replication 10.0.0.7(4711) streaming": false,
		"postgres: walsender howdah_replication 10.0.0.7(4711) sending backup":  false,
		"postgres: walsender howdah_replication_2 10.0.0.7(4711) ":              true,
		"postgres: shop: walreceiver streaming 1/5000F8":                        false,
		"postgres: shop: checkpointer ":                                         false,
		"postgres: shop: walwriter ":                                            false,
	} {
		if got := serves(title); got != want {
			t.Errorf("%q: %v", title, got)
		}
	}
}
