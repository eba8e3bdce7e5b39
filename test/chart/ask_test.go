//go:build chart

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// ask renders a template with the helpers of the chart, for what these do with objects that are only there in a cluster. The release is howdah,
// in namespace howdah-system.
func ask(t *testing.T, template string, values map[string]any) (string, error) {
	t.Helper()
	content, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"Chart.yaml": []byte("apiVersion: v2\nname: asks\nversion: 0.0.0\n"), "values.yaml": content, "templates/answer.yaml": []byte(template),
	}
	helpers, err := filepath.Glob(filepath.Join(chart, "templates", "*.tpl"))
	if err != nil || len(helpers) == 0 {
		t.Fatalf("there are no helpers: %v", err)
	}
	for _, path := range helpers {
		if files["templates/"+filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), helm, "template", "howdah", dir, "--namespace", "howdah-system").CombinedOutput()
	return string(out), err
}
