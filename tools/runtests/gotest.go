package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// goSuite is one run of go test.
type goSuite struct {
	name     string
	on       string // what the lines of its packages end with, where the same ones run more than once
	dir      string
	tags     string
	packages []string
	timeout  time.Duration // 0 takes results that go has cached
	env      []string
	exec     string // what the tests are run by
	run      string // which tests, if not all
	parallel int    // how many tests of a package at a time, if not as many as there are processors
	short    bool   // leave out what is for `make test-full`
	race     bool
}

func (s goSuite) args() []string {
	args := []string{"test", "-json", "-vet=off"} // the linter vets, in the stage verify
	if s.timeout > 0 {
		args = append(args, "-timeout="+s.timeout.String(), "-count=1")
	} else {
		args = append(args, "-timeout=20m") // go's own 10 are little for a busy machine
	}
	for flag, value := range map[string]string{"-tags": s.tags, "-exec": s.exec, "-run": s.run} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	if s.parallel > 0 {
		// As many packages: with more, two processors are no busier, and tests that wait ask more often in vain.
		args = append(args, fmt.Sprint("-parallel=", s.parallel), fmt.Sprint("-p=", runtime.GOMAXPROCS(0)))
	}
	if s.short {
		args = append(args, "-short")
	}
	if s.race {
		args = append(args, "-race")
	}
	return append(args, slowFirst(s.packages)...)
}

// slow are the packages whose tests take longest, the longest first. They begin before the others, which fill up the time until
// they end.
var slow = []string{
	"test/integration/together", "cmd/db-controller/internal/cluster", "cmd/agent/internal/supervise", "cmd/agent/internal/pgbouncer",
	"cmd/agent/internal/restorejob",
	"cmd/agent/internal/elect", "cmd/agent/internal/basebackup", "cmd/backup-controller", "cmd/restore-controller/internal/restore", "pkg/backup",
}

func slowFirst(packages []string) []string {
	place := func(path string) int {
		if i := slices.IndexFunc(slow, func(name string) bool { return strings.HasSuffix(path, "/"+name) }); i >= 0 {
			return i
		}
		return len(slow)
	}
	sorted := slices.Clone(packages)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return sorted
}

// tally counts tests, subtests among them, and keeps what each took.
type tally struct {
	passed, failed, skipped int
	tests                   []timed
}

func (t tally) String() string {
	if t.passed+t.failed+t.skipped == 0 {
		return ""
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// event is a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// goTests runs suites side by side: at the end of each, one long test leaves the processors to the others.
func goTests(ctx context.Context, t *tally, suites ...goSuite) error {
	tallies, errs := make([]tally, len(suites)), make([]error, len(suites))
	var all sync.WaitGroup
	for i := range suites {
		if len(suites[i].packages) > 0 {
			all.Go(func() { errs[i] = goTest(ctx, &tallies[i], suites[i]) })
		}
	}
	all.Wait()
	for i := range tallies {
		t.add(&tallies[i])
	}
	return errors.Join(errs...)
}

func (t *tally) add(other *tally) {
	t.passed, t.failed, t.skipped = t.passed+other.passed, t.failed+other.failed, t.skipped+other.skipped
	t.tests = append(t.tests, other.tests...)
}

// goTest runs a suite and shows a line for each package and whatever failing tests said.
func goTest(ctx context.Context, t *tally, s goSuite) error {
	cmd := exec.CommandContext(ctx, "go", s.args()...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	log, err := os.OpenFile(logPath(s.name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) // a stage may have several suites
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = io.MultiWriter(os.Stderr, log)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := reporter{tally: t, on: s.on, log: log, output: map[string][]string{}, times: map[string]times{}}
	if err := r.read(stdout); err != nil {
		return err
	}
	return cmd.Wait()
}

// reporter makes sense of the events of one run.
type reporter struct {
	tally  *tally
	on     string
	log    io.Writer
	output map[string][]string // of each package and test that is not done yet
	times  map[string]times    // of each package that is not done yet
}

func (r *reporter) read(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // the go command itself, speaking of a build that failed
			continue
		}
		r.take(e)
	}
	return lines.Err()
}

func (r *reporter) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		fmt.Fprint(r.log, e.Output)
		r.output[key] = append(r.output[key], e.Output)
	case "build-fail":
		r.tally.failed++
		r.show(key)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageDone(e, key)
			break
		}
		r.testDone(e, key)
	}
}

func (r *reporter) testDone(e event, key string) {
	if r.times[e.Package] == nil {
		r.times[e.Package] = times{}
	}
	r.times[e.Package][e.Test] = seconds(e.Elapsed)
	switch e.Action {
	case "pass":
		r.tally.passed++
	case "skip":
		r.tally.skipped++
	case "fail":
		r.tally.failed++
		r.show(key)
	}
	delete(r.output, key)
}

func (r *reporter) packageDone(e event, key string) {
	switch e.Action {
	case "fail":
		r.show(key)
		fmt.Printf("    FAIL %s (%.1fs)%s\n", e.Package, e.Elapsed, r.on)
	case "pass":
		fmt.Printf("    ok   %s (%.1fs)%s\n", e.Package, e.Elapsed, r.on)
	}
	if !strings.Contains(strings.Join(r.output[key], ""), "(cached)") { // else it took that another time
		r.tally.tests = append(r.tally.tests, r.times[e.Package].of(e.Package)...)
	}
	delete(r.output, key)
	delete(r.times, e.Package)
}

func (r *reporter) show(key string) {
	fmt.Print("    " + strings.ReplaceAll(strings.TrimRight(strings.Join(r.output[key], ""), "\n"), "\n", "\n    ") + "\n")
}

// command runs something that isn't a Go test, shows what it says and keeps it.
func command(ctx context.Context, name string, env []string, args ...string) error {
	log, err := os.Create(logPath(name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, log), io.MultiWriter(os.Stderr, log)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}
