package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reasonConstants = regexp.MustCompile(`\bReason[A-Za-z]*\s+= "([A-Za-z]+)"`)
	runbookRows     = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|")
	withoutAction   = "## Reasons that need no action"
)

// reasonsIn finds the constants of reasons below a folder.
func reasonsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	reasons := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, found := range reasonConstants.FindAllSubmatch(contentOf(t, relative), -1) {
			reasons[string(found[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reasons) == 0 {
		t.Fatalf("no reason was found in %s", folder)
	}
	return reasons
}

func TestTheRunbookHasEveryReason(t *testing.T) {
	runbook := string(contentOf(t, "docs/runbooks/README.md"))
	for reason := range reasonsIn(t, "apis/v1alpha1") {
		if !strings.Contains(runbook, "`"+reason+"`") {
			t.Errorf("docs/runbooks/README.md doesn't say what to do about %s", reason)
		}
	}
}

func TestEveryReasonInTheRunbookIsThere(t *testing.T) {
	there := reasonsIn(t, "apis/v1alpha1")
	for reason := range reasonsIn(t, "cmd") {
		there[reason] = true
	}
	runbook, rest, found := strings.Cut(string(contentOf(t, "docs/runbooks/README.md")), withoutAction)
	if !found {
		t.Fatalf("the runbook has no chapter %q", withoutAction)
	}
	for _, row := range runbookRows.FindAllStringSubmatch(runbook, -1) {
		if !there[row[1]] {
			t.Errorf("the runbook explains %s, which no code says", row[1])
		}
	}
	for _, named := range quoted.FindAllStringSubmatch(rest, -1) {
		if !there[named[1]] {
			t.Errorf("the runbook names %s, which no code says", named[1])
		}
	}
}
