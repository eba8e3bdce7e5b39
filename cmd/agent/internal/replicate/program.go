package replicate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// program is one run of a program of PostgreSQL's.
type program struct {
	path string
	args []string
	// lock is handed down, so that nobody starts a server on what it works on; nil: there is none.
	lock *os.File
	// endless programs run until they are interrupted, and end well then.
	endless bool
	// line takes what it writes to standard error, line by line.
	line func(string)
}

const killTime = 5 * time.Second

// run returns when the program has ended. At the end of ctx all of its processes are killed, and it does not outlive us.
func (p program) run(ctx context.Context) error {
	// The signal at the parent's death is tied to the thread that has started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Dir, cmd.Env = "/", environment(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	signal := syscall.SIGKILL
	if p.endless {
		signal = syscall.SIGINT // and after WaitDelay it is killed
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, signal) }
	cmd.WaitDelay = killTime
	if p.lock != nil {
		cmd.ExtraFiles = []*os.File{p.lock}
	}
	lines := &lineWriter{take: p.line}
	cmd.Stderr = lines
	err := cmd.Run()
	lines.end()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", filepath.Base(p.path), context.Cause(ctx))
	}
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return fmt.Errorf("%s: %w", filepath.Base(p.path), exit)
	}
	return err
}

// environment leaves out what would change how the program connects.
func environment(all []string) []string {
	kept := slices.DeleteFunc(slices.Clone(all), func(pair string) bool { return strings.HasPrefix(pair, "PG") })
	return append(kept, "LC_ALL=C", "TZ=UTC", "PGTZ=UTC", "HOME=/nonexistent") // no settings or certificates of a user's
}

// lineWriter passes lines on. Progress ends with a carriage return on a terminal only, but that is for the program to say.
type lineWriter struct {
	rest []byte
	take func(string)
}

const maxLine = 16 << 10

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		at := bytes.IndexAny(w.rest, "\r\n")
		if at < 0 {
			break
		}
		w.pass(w.rest[:at])
		w.rest = w.rest[at+1:]
	}
	if len(w.rest) > maxLine {
		w.end()
	}
	return len(b), nil
}

func (w *lineWriter) pass(line []byte) {
	if text := strings.TrimSpace(string(line)); text != "" {
		w.take(text)
	}
}

func (w *lineWriter) end() {
	w.pass(w.rest)
	w.rest = nil
}
