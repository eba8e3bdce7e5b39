// Package watchdog is the process beside PostgreSQL that kills it when the agent does not extend its permission in time: a
// frozen agent must not leave a server behind that accepts writes after another one may have taken over.
//
// The agent writes lines to the watchdog's standard input, `<until> <data directory>`, with until in nanoseconds of Now. The
// end of the input is the end of the agent.
package watchdog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the machine was started, with the time that it slept. All processes of a machine agree on it.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every kernel that runs containers has it
	}
	return time.Duration(ts.Nano())
}

// permission to run a server.
type permission struct {
	until time.Duration
	dir   string
}

// Watch is the watchdog: it reads permissions and calls kill with the data directory whenever the newest has run out, again
// and again until there is a new one, and says how late it is by then: a machine that stood still may be very late. Several
// threads may call simultaneously then. It returns when the input has ended, after a last kill.
func Watch(in io.Reader, now func() time.Duration, kill func(dir string, late time.Duration)) error {
	lines := make(chan permission)
	failed := make(chan error, 1)
	go read(in, lines, failed)
	beside := &guards{now: now, kill: kill}
	defer beside.ended.Store(true)
	beside.start()
	var p permission
	for {
		var expired <-chan time.Time
		if p.dir != "" {
			expired = time.After(max(p.until-now(), minPause))
		}
		select {
		case p = <-lines:
			newest := p
			beside.newest.Store(&newest)
		case err := <-failed:
			if p.dir != "" {
				kill(p.dir, max(0, now()-p.until))
			}
			return err
		case <-expired:
			if late := now() - p.until; late >= 0 {
				kill(p.dir, late)
			}
		}
	}
}

// minPause is between two kills.
const minPause = 10 * time.Millisecond

func read(in io.Reader, lines chan<- permission, failed chan<- error) {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		until, dir, _ := strings.Cut(scanner.Text(), " ")
		nanoseconds, err := strconv.ParseInt(until, 10, 64)
		if err != nil {
			failed <- fmt.Errorf("a line that is not a permission: %w", err)
			return
		}
		lines <- permission{time.Duration(nanoseconds), dir}
	}
	failed <- scanner.Err()
}

// Process is the watchdog as the agent that started it holds it.
type Process struct {
	program string
	log     *slog.Logger

	mu    sync.Mutex
	last  permission
	stdin io.WriteCloser // nil: the watchdog doesn't run
}

// New makes a handle without a watchdog yet; Run keeps one running.
func New(program string, log *slog.Logger) *Process { return &Process{program: program, log: log} }

// Run keeps a watchdog running until ctx ends. It ends with the agent in any case.
func (p *Process) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.once(ctx)
		if ctx.Err() == nil {
			p.log.Error("the watchdog has ended; another is started", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func (p *Process) once(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, p.program, "watchdog")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", 1+len(processors())), "GOGC=20") // a guard waits for nobody
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the watchdog: %w", err)
	}
	p.mu.Lock()
	p.stdin = stdin
	p.tell()
	p.mu.Unlock()
	err = cmd.Wait()
	p.mu.Lock()
	p.stdin = nil
	p.mu.Unlock()
	return errors.Join(err, errEnded)
}

var errEnded = errors.New("it ended")

// Permit lets the server on a data directory run until then.
func (p *Process) Permit(until time.Duration, dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := (permission{until, dir}); next != p.last {
		p.last = next
		p.tell()
	}
}

// tell writes the newest permission. The pipe takes it at once: the watchdog does nothing but read.
func (p *Process) tell() {
	if p.stdin == nil || p.last.dir == "" {
		return
	}
	if _, err := fmt.Fprintf(p.stdin, "%d %s\n", int64(p.last.until), p.last.dir); err != nil {
		p.log.Warn("the watchdog does not listen", "error", err)
	}
}
