// Package docs checks that what the documents name is there.
package docs

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
)

const root = "../.."

var (
	links       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	makeTargets = regexp.MustCompile("(?m)(?:`|^|\\$ )make ([a-z][a-z-]*)")
	targets     = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	quoted      = regexp.MustCompile("`([^`\n]+)`")
	fences      = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	paths       = regexp.MustCompile(`^(?:\./)?(apis|charts|cmd|config|docs|pkg|test|tools)/[A-Za-z0-9_./-]+$`)
)

// documents reads every Markdown file of the repository, by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 3 {
		t.Fatalf("only %d documents found", len(found))
	}
	return found
}

func TestLinksInsideTheRepositoryLeadSomewhere(t *testing.T) {
	for path, content := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(content, -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			page := path
			if target != "" {
				page = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s links to %s, which isn't there", path, link[1])
			} else if content, _ := os.ReadFile(page); anchor != "" && !slices.Contains(anchors(content), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", path, link[1], page)
			}
		}
	}
}

func TestEveryMakeTargetThatIsNamedIsThere(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, target := range targets.FindAllStringSubmatch(string(makefile), -1) {
		there[target[1]] = true
	}
	for path, content := range documents(t) {
		for _, named := range makeTargets.FindAllStringSubmatch(content, -1) {
			if !there[named[1]] {
				t.Errorf("%s names `make %s`, which the Makefile doesn't have", path, named[1])
			}
		}
	}
}

// Proposals speak of what is to come and may name it.
func TestEveryPathThatIsNamedIsThere(t *testing.T) {
	for path, content := range documents(t) {
		if strings.Contains(path, "docs/proposals/") {
			continue
		}
		for _, named := range quoted.FindAllStringSubmatch(content, -1) {
			if !paths.MatchString(named[1]) || strings.Contains(named[1], "...") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, named[1])); err != nil {
				t.Errorf("%s names %s, which isn't there", path, named[1])
			}
		}
	}
}

// decode reads every object of our own group in some YAML and refuses fields that the types don't have.
func decode(t *testing.T, where, content string) (kinds []string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return kinds
		}
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		var header struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &header); err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		version := schema.FromAPIVersionAndKind(header.APIVersion, header.Kind)
		if version.Group != v1alpha1.GroupVersion.Group {
			continue
		}
		object, err := scheme.New(version)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		kinds = append(kinds, header.Kind)
	}
}

func TestExamplesInDocumentsHaveOnlyFieldsThatExist(t *testing.T) {
	for path, content := range documents(t) {
		if strings.Contains(path, "docs/proposals/") {
			continue
		}
		for _, fence := range fences.FindAllStringSubmatch(content, -1) {
			decode(t, path, fence[1])
		}
	}
}

func TestEveryKindHasASampleThatHasOnlyFieldsThatExist(t *testing.T) {
	samples, err := filepath.Glob(filepath.Join(root, "config/samples/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, path := range samples {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range decode(t, path, string(content)) {
			have[kind] = true
		}
	}
	for _, kind := range []string{
		v1alpha1.KindPostgresCluster, v1alpha1.KindBackupRepository, v1alpha1.KindBackup,
		v1alpha1.KindBackupSchedule, v1alpha1.KindRestore, v1alpha1.KindUpgrade,
	} {
		if !have[kind] {
			t.Errorf("config/samples has no %s", kind)
		}
	}
}

func TestGeneratedPagesAreOnePerKind(t *testing.T) {
	crds, _ := filepath.Glob(filepath.Join(root, "config/crd/howdah.dev_*.yaml"))
	pages, _ := filepath.Glob(filepath.Join(root, "docs/crd/*.md"))
	if len(crds) != len(pages) || len(crds) == 0 {
		t.Errorf("%d CRDs, %d pages", len(crds), len(pages))
	}
}

// TestEveryTestThatIsNamedIsThere: the threat model names what shows its claims.
func TestEveryTestThatIsNamedIsThere(t *testing.T) {
	named, tests := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)`"), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(content), -1) {
			tests[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range documents(t) {
		for _, name := range named.FindAllStringSubmatch(content, -1) {
			if !tests[name[1]] {
				t.Errorf("%s names %s, which is not there", path, name[1])
			}
		}
	}
	if !named.MatchString(documents(t)[filepath.Join(root, "docs/threat-model.md")]) {
		t.Error("the threat model names no test")
	}
}
