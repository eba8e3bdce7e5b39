package postmaster

import (
	"os/exec"
	"testing"
	"time"
)

func TestAPostmasterThatIsFrozenGoesOnAfterTheLimit(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Server{cmd: cmd}
	t.Cleanup(func() {
		_ = s.Kill()
		_ = cmd.Wait()
	})
	if err := s.Freeze(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	saw := false
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		frozen := s.Frozen()
		if saw = saw || frozen; saw && !frozen {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("frozen was seen: %t; and it is frozen: %t", saw, frozen)
		}
	}
}
