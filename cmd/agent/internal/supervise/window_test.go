package supervise

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestClientsAreMadeToWaitInTheMaintenanceWindowOnly(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"there is no window": {"", true}, "it is open": {`{"from":"2026-03-01T03:00:00Z","to":"2026-03-01T04:00:00Z"}`, true},
		"it is to open": {`{"from":"2026-03-08T03:00:00Z","to":"2026-03-08T04:00:00Z"}`, false},
		"it has closed": {`{"from":"2026-03-01T02:00:00Z","to":"2026-03-01T03:00:00Z"}`, false},
		"it is invalid": {`{"from":"0001-01-01T00:00:00Z","to":"0001-01-01T00:00:00Z"}`, false},
		"it is torn":    {`{"from":"2026-03`, false},
	} {
		paths := Paths{ConfigFile: filepath.Join(t.TempDir(), "agent.json")}
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(filepath.Dir(paths.ConfigFile), "window.json"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := paths.mayBlock(at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
