// Package pgprogram runs the programs of PostgreSQL that copy a database, pg_dump and pg_restore, and repeats what they say of errors without
// what they quote of rows and statements.
package pgprogram

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Environment is ours without what would tell libpq anything.
func Environment() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") {
			env = append(env, entry)
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}

// Entries are the lines of a list of contents that are no comments.
func Entries(list []byte) (lines []string) {
	for line := range strings.SplitSeq(string(list), "\n") {
		if line != "" && !strings.HasPrefix(line, ";") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Command is a program that is told to stop before it is killed.
func Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Run runs a program, and has each line that it says on standard error looked at.
func Run(ctx context.Context, env []string, each func(string), name string, args ...string) error {
	cmd := Command(ctx, env, name, args...)
	errs := &Said{Each: each}
	cmd.Stderr = errs
	if err := cmd.Run(); err != nil {
		return errs.Explain(filepath.Base(name), err)
	}
	return nil
}

// Output is what a program writes on standard output.
func Output(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := Command(ctx, env, name, args...)
	errs := &Said{}
	cmd.Stderr = errs
	out, err := cmd.Output()
	if err != nil {
		return nil, errs.Explain(filepath.Base(name), err)
	}
	return out, nil
}

// Said keeps what a program says of its errors, and leaves out the rows and statements that it quotes.
type Said struct {
	// Each is called with each line; nil: nobody is.
	Each func(string)

	mu      sync.Mutex
	partial string
	errors  []string
}

const mostErrors = 6

// Write takes a part of the output.
func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.partial + string(p)
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			s.partial = line[:min(len(line), bufio.MaxScanTokenSize)]
			return len(p), nil
		}
		s.take(line)
		text = rest
	}
}

func (s *Said) take(line string) {
	if s.Each != nil {
		s.Each(line)
	}
	for _, kind := range []string{": error: ", ": fatal: ", "from TOC entry", "ERROR: ", "HINT: "} {
		if strings.Contains(line, kind) && !strings.HasPrefix(line, "DETAIL") && !strings.HasPrefix(line, "CONTEXT") && len(s.errors) < mostErrors {
			s.errors = append(s.errors, strings.TrimSpace(line))
			return
		}
	}
}

// Explain adds what was said of errors to how a program ended.
func (s *Said) Explain(program string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errors) == 0 {
		return fmt.Errorf("%s: %w", program, err)
	}
	return fmt.Errorf("%s: %w: %s", program, err, strings.Join(s.errors, " "))
}

// Counted says how much was read.
type Counted struct {
	From io.Reader
	Add  func(int64)
}

// Read reads, and says how much.
func (c *Counted) Read(p []byte) (int, error) {
	n, err := c.From.Read(p)
	c.Add(int64(n))
	return n, err
}
