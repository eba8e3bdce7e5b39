package watchdog

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// lockEnv has the test's program lock its memory, and say how much that is.
const lockEnv = "HOWDAH_TEST_LOCK_MEMORY"

func TestTheWatchdogLocksItsMemoryOrSaysWhyNot(t *testing.T) {
	if os.Getenv(lockEnv) != "" {
		err := LockMemory()
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOMEM) {
			t.Error(err)
		}
		status, readErr := os.ReadFile("/proc/self/status")
		if readErr != nil {
			t.Fatal(readErr)
		}
		locked := regexp.MustCompile(`VmLck:\s+([1-9]\d*) kB`).Match(status)
		if locked != (err == nil) {
			t.Errorf("%v, and memory is locked: %v", err, locked)
		}
		t.Log("locked:", locked, err)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestTheWatchdogLocksItsMemoryOrSaysWhyNot$", "-test.v") // not in this one, which other tests share
	cmd.Env = append(os.Environ(), lockEnv+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
