package job

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryOfAJobIsThatOfItsControlGroup(t *testing.T) {
	for content, want := range map[string]int64{"536870912\n": 512 << 20, "max\n": 0, "": 0} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "memory.max"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := MemoryLimit(dir); got != want {
			t.Errorf("%q: %d", content, got)
		}
	}
	if got := MemoryLimit(t.TempDir()); got != 0 {
		t.Errorf("without a control group: %d", got)
	}
}
