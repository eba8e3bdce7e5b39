package manager

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryLimitIsThatOfTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          int64
	}{
		"cgroup v2":         {"memory.max", "268435456\n", 256 << 20},
		"cgroup v2, none":   {"memory.max", "max\n", 0},
		"cgroup v1":         {"memory/memory.limit_in_bytes", "268435456\n", 256 << 20},
		"cgroup v1, none":   {"memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		"no cgroup":         {"other", "", 0},
		"nothing to read":   {"memory.max", "", 0},
		"not even a number": {"memory.max", "-1", 0},
	} {
		folder := t.TempDir()
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(c.file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, c.file), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(folder); got != c.want {
			t.Errorf("%s: %d and not %d", name, got, c.want)
		}
	}
}
