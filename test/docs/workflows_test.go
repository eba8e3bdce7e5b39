package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			Name, Uses, Run string
		}
	}
}

var (
	madeInSteps = regexp.MustCompile(`(?m)(?:^|\s)make ([a-z][a-z-]*)`)
	settings    = regexp.MustCompile(`\$\{\{`)
)

// TestAWorkflowOfTheForgeIsMadeOfTargets: what a forge does, a person can do and test. A value of the forge gets into a script by the
// environment only, where it is no part of the script.
func TestAWorkflowOfTheForgeIsMadeOfTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d workflows: %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(content, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		made := 0
		for job, steps := range w.Jobs {
			for _, step := range steps.Steps {
				if settings.MatchString(step.Run) {
					t.Errorf("%s: the script of %s, %s, has a value of the forge in it: %s", file, job, step.Name, step.Run)
				}
				for _, target := range madeInSteps.FindAllStringSubmatch(step.Run, -1) {
					made++
					if !strings.Contains(string(makefile), "\n"+target[1]+":") {
						t.Errorf("%s: %s makes %s, which the Makefile doesn't have", file, step.Name, target[1])
					}
				}
			}
		}
		if made == 0 {
			t.Errorf("%s makes no target", file)
		}
	}
}
