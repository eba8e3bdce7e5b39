package node

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/network"
)

// isolated are the namespaces that a node has besides its network, which was made before.
const isolated = syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID

// Spawn starts a program in a network namespace, detached from this process, with its output in a log file.
func Spawn(namespace, logFile string, cloneflags uintptr, env []string, args ...string) (Handle, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Handle{}, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: cloneflags}
	if err := startIn(namespace, cmd); err != nil {
		return Handle{}, fmt.Errorf("start %s in %s: %w", args[0], namespace, err)
	}
	handle, err := HandleOf(cmd.Process.Pid)
	// Usually this program ends first; where it lives on (a test), the dead must not stay zombies.
	go func() { _ = cmd.Wait() }()
	return handle, err
}

// startIn forks from a thread that was moved into the namespace. The thread is given up afterwards: Go ends it
// with its goroutine, because it stays locked.
func startIn(namespace string, cmd *exec.Cmd) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			file, err := os.Open(network.NamespacePath(namespace))
			if err != nil {
				return err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return cmd.Start()
		}()
	}()
	return <-result
}
