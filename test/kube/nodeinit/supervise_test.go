package nodeinit

import (
	"path/filepath"
	"strconv"
	"testing"
)

// TestManyProcessesStartAtOnce where none can be started: each is asked for while others are.
func TestManyProcessesStartAtOnce(t *testing.T) {
	config := Config{LogDir: t.TempDir(), Socket: filepath.Join(t.TempDir(), "none", "socket")}
	for i := range 2000 {
		config.Processes = append(config.Processes, Process{Name: strconv.Itoa(i), Args: []string{"/no/such/program"}})
	}
	for range 10 {
		if err := supervise(t.Context(), config); err == nil {
			t.Error("it listens on a socket in a folder that is not there")
		}
	}
}
