package postmaster

import "testing"

func TestTheTitlesOfProcessesTellOfRecovery(t *testing.T) {
	for title, want := range map[string]Recovery{
		"postgres: shop: startup recovering 0000000200000000000000AB":   {Doing: "recovering 0000000200000000000000AB", Asleep: true},
		"postgres: startup   waiting for 0000000200000000000000AC":      {Doing: "waiting for 0000000200000000000000AC", Asleep: true},
		"postgres: shop: startup ":                                      {}, // update_process_title is off
		"postgres: shop: walreceiver streaming 1/5000F8":                {Received: 1<<32 + 0x5000F8},
		"postgres: shop: walreceiver ":                                  {},
		"postgres: shop: app startup 127.0.0.1(4711) idle":              {},
		"postgres: shop: checkpointer ":                                 {},
		"postgres: shop: startup recovering 00000002000000000000000":    {},
		"postgres: shop: walreceiver streaming 1/5000F8 and then some":  {Received: 1<<32 + 0x5000F8},
		"postgres: shop: walreceiver streaming FFFFFFFFFFFFFFFF/5000F8": {},
	} {
		found := Recovery{}
		if found.see(title, process{pid: -1, state: "S"}); found != want {
			t.Errorf("%q says %+v", title, found)
		}
	}
	found := Recovery{}
	if found.see("postgres: startup recovering 0000000200000000000000AB", process{pid: -1, state: "R"}); found.Asleep {
		t.Error("it runs, and is taken for asleep")
	}
}
