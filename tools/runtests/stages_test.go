package main

import (
	"os"
	"path/filepath"
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
