package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestATaggedStageRunsTheTestsOfItsFilesOnly(t *testing.T) {
	t.Chdir("../..")
	for _, tag := range []string{"postgres", "integration", "s3", "e2e"} {
		files, err := filesWith(t.Context(), tag)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(string(content), "\n"); strings.Contains(first, "!"+tag) {
				t.Errorf("%s is left out by the tag %s", path, tag)
			}
		}
		packages, pattern, err := testsIn(files)
		if err != nil || len(packages) == 0 || !strings.HasPrefix(pattern, "^(Test") {
			t.Errorf("%s: %q, %v", tag, pattern, err)
		}
	}
}

// concurrency is what code has that the race detector could find something in.
var concurrency = regexp.MustCompile(`(?m)^\s*(defer )?go (func|\w+[\w.]*\()|\bchan\b|"sync(/atomic)?"|t\.Parallel\(\)|errgroup|synctest|\.Go\(`)

func TestWhatRunsWithoutTheDetectorDoesOneThingAtATime(t *testing.T) {
	for _, folder := range sequential {
		looked := 0
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			if found := concurrency.Find(content); found != nil && !strings.HasPrefix(string(content), "//go:build ") {
				t.Errorf("%s has %q: take %s out of sequential", path, found, folder)
			}
			return nil
		})
		if err != nil || looked == 0 {
			t.Errorf("%s: %d files, %v", folder, looked, err)
		}
	}
}

func TestAPackageIsNamedOnceAndEachOfItsTests(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"one_test.go": "package x\n\nfunc TestOne(t *testing.T) {}\n\nfunc helper() {}\n",
		"two_test.go": "package x\n\nfunc TestMain(m *testing.M) {}\n\nfunc TestTwo(t *testing.T) {}\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	packages, pattern, err := testsIn(files)
	if err != nil || !slices.Equal(packages, []string{"./."}) || pattern != "^(TestOne|TestTwo)$" {
		t.Errorf("%q, %q, %v", packages, pattern, err)
	}
}

func TestTheSlowestPackagesBeginFirst(t *testing.T) {
	got := slowFirst([]string{"./cmd/agent/internal/archive", "./cmd/agent/internal/supervise", "./cmd/db-controller/internal/cluster", "./pkg/postgres"})
	want := []string{"./cmd/db-controller/internal/cluster", "./cmd/agent/internal/supervise", "./cmd/agent/internal/archive", "./pkg/postgres"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, name := range slow {
		if _, err := os.Stat("../../" + name); err != nil {
			t.Errorf("%s is among the slow packages: %v", name, err)
		}
	}
}

func TestSuitesThatRunSideBySideAreCountedTogether(t *testing.T) {
	t.Chdir("../..")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	counted := &tally{}
	one := goSuite{name: "counted", packages: []string{"./tools/runtests"}, run: "^TestTheSlowestPackagesBeginFirst$"}
	err := goTests(t.Context(), counted, one, goSuite{}, one)
	if err != nil || counted.passed != 2 || counted.failed != 0 {
		t.Errorf("%+v: %v", counted, err)
	}
}
