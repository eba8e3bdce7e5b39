package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestAHandleIsOfOneProcessOnly(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	handle, err := HandleOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !handle.Alive() {
		t.Error("a running process counts as dead")
	}
	if other := (Handle{PID: handle.PID, Start: "1"}); other.Alive() {
		t.Error("another process under the same number counts as the one that was meant")
	}
	if err := handle.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if handle.Alive() {
		t.Error("a dead process counts as running")
	}
	if err := handle.Kill(); err != nil {
		t.Errorf("killing the dead: %v", err)
	}
}

func TestAHandleOutlivesItsProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if nobody, err := LoadHandle(file); err != nil || nobody.Alive() {
		t.Errorf("without a file: %v, %v", nobody, err)
	}
	self, err := HandleOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Save(file); err != nil {
		t.Fatal(err)
	}
	if loaded, err := LoadHandle(file); err != nil || loaded != self || !loaded.Alive() {
		t.Errorf("got %v, %v", loaded, err)
	}
	if err := os.WriteFile(file, []byte(`{"pid": 1`), 0o644); err != nil {
		t.Fatal(err)
	}
	if torn, err := LoadHandle(file); err != nil || torn.Alive() {
		t.Errorf("a torn file: %v, %v", torn, err)
	}
}
