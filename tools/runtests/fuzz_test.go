package main

import (
	"slices"
	"testing"
)

func TestEveryFuzzTargetOfTheModuleIsRun(t *testing.T) {
	t.Chdir("../..")
	targets, err := fuzzTargets(".")
	if err != nil || !slices.Contains(targets, fuzzTarget{"pkg/backup", "FuzzDecodeManifest"}) || !slices.Contains(targets, fuzzTarget{"pkg/pitr", "FuzzHistories"}) {
		t.Errorf("%v, %v", targets, err)
	}
	if slices.ContainsFunc(targets, func(f fuzzTarget) bool { return f.name == "FuzzSources" }) {
		t.Error("one of another module would not be found by go test")
	}
}
