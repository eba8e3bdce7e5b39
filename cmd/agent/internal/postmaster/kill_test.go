package postmaster

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The roles of this program when it runs again as what a container has in it.
const (
	roleVariable = "POSTMASTER_TEST_ROLE"
	roleFirst    = "first"    // the container's first process
	roleWatchdog = "watchdog" // the one that kills
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleFirst:
		os.Exit(first())
	case roleWatchdog:
		KillAll(os.TempDir())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// first starts a process that works elsewhere, has a child kill, and tells by its exit code what came of it.
func first() int {
	other := exec.Command("sleep", "60")
	if other.Start() != nil {
		return 2
	}
	watchdog := exec.Command("/proc/self/exe")
	watchdog.Env = append(os.Environ(), roleVariable+"="+roleWatchdog)
	if watchdog.Run() != nil {
		return 3
	}
	err := other.Wait()
	if status, ok := other.ProcessState.Sys().(syscall.WaitStatus); err != nil && ok && status.Signal() == syscall.SIGKILL {
		return 0
	}
	return 4
}

func TestTheWatchdogOfAContainerEndsAllOfItAtOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a container's view of processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := t.TempDir() + "/agent"
	if out, err := exec.Command("install", "-m", "755", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := exec.Command("chmod", "-R", "a+rx", strings.TrimSuffix(program, "/001/agent")).Run(); err != nil {
		t.Fatal(err)
	}
	container := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", program)
	container.Env = append(os.Environ(), roleVariable+"="+roleFirst)
	container.WaitDelay = time.Minute
	if out, err := container.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestOutsideOfAContainerNothingElseIsKilled(t *testing.T) {
	if inContainer() {
		t.Fatal("this machine is taken for a container")
	}
}

func TestAServerThatHasOnlyBegunIsKilledWithTheRest(t *testing.T) {
	bin, pgdata := t.TempDir(), t.TempDir()
	if err := os.WriteFile(bin+"/postgres", []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := Start(Spec{BinDir: bin, PGData: pgdata, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.signal(syscall.SIGKILL) })
	KillAll(pgdata)
	select {
	case <-server.Done():
	case <-time.After(time.Minute):
		t.Error("it runs on")
	}
}
