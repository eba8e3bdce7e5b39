package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

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

// slowest prints which tests of all stages took longest. Tests that run at the same time slow each other down.
func slowest(chosen []*stage, count int) {
	type line struct {
		stage string
		timed
	}
	var all []line
	for _, s := range chosen {
		for _, test := range s.tally.tests {
			all = append(all, line{s.name, test})
		}
	}
	slices.SortFunc(all, func(a, b line) int { return cmp.Compare(b.took, a.took) })
	all = all[:min(count, len(all))]
	if len(all) > 0 {
		fmt.Printf("\nthe slowest tests:\n")
	}
	for _, l := range all {
		fmt.Printf("  %8s  %-12s %s\n", short(l.took), l.stage, l.name)
	}
}
