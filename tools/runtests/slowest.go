package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// timesPath is a table of seconds, stage and test.
var timesPath = filepath.Join(logs, "times.tsv")

// timed is what one test took.
type timed struct {
	name string
	took time.Duration
}

// times are what the tests of a package took, by name.
type times map[string]time.Duration

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// of lists tests, and of subtests those that aren't a part of their test's time, because they run in parallel: Go doesn't
// count them then.
func (t times) of(pkg string) (tests []timed) {
	for name, took := range t {
		if i := strings.LastIndex(name, "/"); i >= 0 && took <= t[name[:i]] {
			continue
		}
		tests = append(tests, timed{path.Base(pkg) + " " + name, took})
	}
	return tests
}

// line is a test with its stage.
type line struct {
	stage string
	timed
}

func (l line) String() string { return fmt.Sprintf("%8s  %-12s %s", short(l.took), l.stage, l.name) }

// bySlowness are the tests of some stages, the slowest first.
func bySlowness(chosen []*stage) []line {
	var all []line
	for _, s := range chosen {
		for _, test := range s.tally.tests {
			all = append(all, line{s.name, test})
		}
	}
	slices.SortFunc(all, func(a, b line) int { return cmp.Compare(b.took, a.took) })
	return all
}

// slowest prints which tests took longest, and writes what each took to a file. Tests that run at the same time slow each other down.
func slowest(chosen []*stage, count int) error {
	all := bySlowness(chosen)
	if len(all) == 0 {
		return nil
	}
	fmt.Printf("\nthe slowest tests, of those in %s:\n", timesPath)
	var table strings.Builder
	for i, l := range all {
		if i < count {
			fmt.Println("  " + l.String())
		}
		fmt.Fprintf(&table, "%.2f\t%s\t%s\n", l.took.Seconds(), l.stage, l.name)
	}
	return os.WriteFile(timesPath, []byte(table.String()), 0o600)
}
