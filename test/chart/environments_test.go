//go:build chart

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// valuesInPages are the fragments of documents that say what they are.
var valuesInPages = regexp.MustCompile("(?ms)^```yaml\n(# values of the chart howdah\n.*?)^```")

func TestTheChartAcceptsTheValuesThatThePagesName(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range valuesInPages.FindAllSubmatch(content, -1) {
			found++
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, values[1], 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), helm, "template", "howdah", chart, "--namespace", "howdah-system", "--values", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", page, err, values[1], out)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d fragments were found", found)
	}
}
