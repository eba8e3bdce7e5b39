// Command runtests runs every test of the repository in stages: what needs nothing first, the real cluster last. What
// takes long to build (Kubernetes, images of PostgreSQL, S3 servers) is begun at once, in the background, and each
// stage waits only for what it needs. It prints what every stage took, and the slowest tests; the last line counts the tests.
//
//	go run ./tools/runtests [--full] [stage ...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// logs has the whole output of every stage and background job.
const logs = "build/logs"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	full := flag.Bool("full", false, "leave nothing out, and look for data races everywhere")
	flag.Parse()
	passed, failed, err := run(ctx, *full, flag.Args())
	if err != nil {
		fmt.Printf("\n%v\n", err)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if err != nil || failed > 0 {
		stop()
		os.Exit(1)
	}
}

// run runs the wanted stages, all of them if none is named. A stage that fails doesn't keep the others from running,
// so that one look shows everything.
func run(ctx context.Context, full bool, wanted []string) (passed, failed int, err error) {
	chosen, err := choose(full, wanted)
	if err != nil {
		return 0, 0, err
	}
	if err := usersClusterServes(chosen); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o755)); err != nil {
		return 0, 0, err
	}
	if err := environment(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	wasUp := clusterIsUp(ctx)
	background := begin(ctx, chosen)
	var errs []error
	for _, s := range chosen {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%s: not run: interrupted", s.name))
			continue
		}
		fmt.Printf("\n=== %s: %s\n", s.name, s.about)
		background.reach(s.name)
		start := time.Now()
		tally := &tally{}
		s.err = background.await(ctx, s.needs)
		if s.err == nil {
			start = time.Now() // waiting for a build is not the stage's time
			before := processorTime()
			s.err = s.run(ctx, tally)
			s.busy = busyShare(before, processorTime())
		}
		s.took, s.tally = time.Since(start), *tally
		passed, failed = passed+tally.passed, failed+tally.failed
		if s.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, s.err))
		}
		fmt.Printf("=== %s\n", s.line())
	}
	background.stop()
	if background.find("cluster") != nil {
		if err := takeDown(ctx, wasUp); err != nil {
			errs = append(errs, err)
		}
	}
	summary(chosen, background, time.Since(began))
	return passed, failed, errors.Join(errs...)
}

// environment is what all that is run from here has, unless a person has set it otherwise.
//
// The heaps of the compiler, the linter, the tests and Kubernetes grow to five times what is in use: all of them are small, and
// would collect garbage for a quarter of their time. Whoever measures memory sets the percentage for itself. Paths are left out
// of what is compiled, so that another checkout finds it in the cache.
func environment() error {
	for name, value := range map[string]string{"GOGC": "400", "GOFLAGS": "-trimpath -buildvcs=false"} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func choose(full bool, wanted []string) ([]*stage, error) {
	all := stages(full)
	var chosen []*stage
	for _, s := range all {
		if len(wanted) == 0 || slices.Contains(wanted, s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) < len(wanted) {
		var names []string
		for _, s := range all {
			names = append(names, s.name)
		}
		return nil, fmt.Errorf("no such stage among %v: there are %s", wanted, strings.Join(names, ", "))
	}
	return chosen, nil
}

func summary(chosen []*stage, background *jobs, took time.Duration) {
	fmt.Printf("\n%s, with the whole output in %s:\n", short(took), logs)
	for _, j := range background.all {
		fmt.Printf("  %-12s in the background %s\n", j.name, j.state())
	}
	for _, s := range chosen {
		fmt.Println("  " + s.line())
	}
	if err := slowest(chosen, 20); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func short(d time.Duration) string { return d.Round(time.Second / 10).String() }

func logPath(name string) string {
	return filepath.Join(logs, strings.ReplaceAll(name, " ", "-")+".log")
}
