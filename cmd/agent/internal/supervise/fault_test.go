package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

func faultsOn(volume generation.Volume) *faults {
	return newFaults(volume, newState("shop-0"), slog.New(slog.DiscardHandler))
}

func TestAFaultThatWasRecordedIsNotCausedAgainByTheNextAgent(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	if err := generation.RecordFault(volume, generation.Fault{Token: "a", Fault: agentapi.FaultFreeze, State: agentapi.FaultRunning}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f := faultsOn(volume)
		status, known, err := f.known("a")
		if !known || err != nil || status.State != agentapi.FaultDone || f.state.Status().Fault == nil || *f.state.Status().Fault != status {
			t.Errorf("%+v %t %v", status, known, err)
		}
		if _, known, _ := f.known("b"); known {
			t.Error("another token is known")
		}
	}
}

func TestNoFaultIsCausedWhereTheLastOneCanNotBeRead(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(volume), "fault.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := faultsOn(volume).known("a"); err == nil {
		t.Error("it is not said")
	}
}
