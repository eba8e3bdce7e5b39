// Package subset picks some cases of a long table for `make test`, other ones each time. `make test-full` has all of them.
package subset

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Some returns n of the cases, or all of them where tests are not short. Let each have a subtest, so that the output names those that ran.
func Some[T any](n int, cases []T) []T {
	if !testing.Short() || n >= len(cases) {
		return cases
	}
	chosen := rand.Perm(len(cases))[:n]
	slices.Sort(chosen)
	some := make([]T, n)
	for i, at := range chosen {
		some[i] = cases[at]
	}
	return some
}

// Of is Some for a table with names.
func Of[V any](n int, cases map[string]V) map[string]V {
	some := map[string]V{}
	for _, name := range Some(n, slices.Sorted(maps.Keys(cases))) {
		some[name] = cases[name]
	}
	return some
}

// OnlyInFull leaves a test to `make test-full`: it takes long, and others test most of what it does.
func OnlyInFull(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-full has it")
	}
}

// OneIn leaves a test to one run of `make test` in n, chosen at random, and to `make test-full`: it takes long, and what it finds need not be
// found by every run.
func OneIn(t testing.TB, n int) {
	t.Helper()
	if testing.Short() && rand.IntN(n) > 0 {
		t.Skipf("one run of make test in %d has it, and make test-full", n)
	}
}
