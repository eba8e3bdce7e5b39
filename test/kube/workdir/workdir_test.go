package workdir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestFoldersOfKilledCallsAreRemovedAndThoseInUseAreNot(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	abandoned, _, err := Make(parent)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-abandonedAfter - time.Minute)
	if err := os.Chtimes(abandoned, long, long); err != nil {
		t.Fatal(err)
	}
	used, remove, err := Make(parent)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Make(parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); err == nil {
		t.Error("the abandoned folder is still there")
	}
	if _, err := os.Stat(used); err != nil {
		t.Error("the folder in use is gone")
	}
	remove()
	if _, err := os.Stat(used); err == nil {
		t.Error("the folder outlives its use")
	}
}
