package main

import (
	"slices"
	"testing"
	"time"
)

func TestASubtestIsListedOnlyIfItsTestDidNotWaitForIt(t *testing.T) {
	all := times{
		"TestTable": 3 * time.Second, "TestTable/a": time.Second, "TestTable/b": 2 * time.Second,
		"TestParallel": 0, "TestParallel/one": 5 * time.Second,
	}
	var names []string
	for _, test := range all.of("howdah.dev/howdah/pkg/backup") {
		names = append(names, test.name)
	}
	slices.Sort(names)
	want := []string{"backup TestParallel", "backup TestParallel/one", "backup TestTable"}
	if !slices.Equal(names, want) {
		t.Errorf("listed are %q, not %q", names, want)
	}
}
