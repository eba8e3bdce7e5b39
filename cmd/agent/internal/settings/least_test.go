package settings

import (
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

func TestAReplicaHasNoLessThanItsCopyAsksFor(t *testing.T) {
	least := LeastOf(postgres.ControlData{MaxConnections: 150, MaxWorkerProcesses: 8, MaxWALSenders: 12, MaxPreparedXacts: 0, MaxLocksPerXact: 64})
	got := map[string]string{}
	for _, p := range least.raise(postgres.ParameterList(map[string]string{
		"max_connections": "0x64", "max_wal_senders": "20", "max_locks_per_transaction": "ten", "work_mem": "4MB",
	})) {
		got[p.Name] = p.Value
	}
	want := map[string]string{"max_connections": "150", "max_wal_senders": "20", "max_locks_per_transaction": "ten", "work_mem": "4MB"}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %s, want %s", name, got[name], value)
		}
	}
}
