// Package child starts programs that must not outlive the agent.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts a program from a thread that lives as long as it does: the kernel ties the signal of SysProcAttr.Pdeathsig to the death of
// the thread, and Go ends threads when it likes. Afterwards it calls ended, once, with how the program ended.
func Start(cmd *exec.Cmd, ended func(error)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}
