//go:build chart

package chart

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEachCRDFitsAClientSideApply: kubectl apply keeps the whole object, as JSON, in an annotation, and Kubernetes limits the annotations of an object.
func TestEachCRDFitsAClientSideApply(t *testing.T) {
	const limit = 256 << 10
	files, err := filepath.Glob("../../config/crd/howdah.dev_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRD: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(content)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object) > limit*9/10 {
			t.Errorf("%s has %d bytes as JSON, and more than nine tenths of %d; shorten the descriptions", filepath.Base(file), len(object), limit)
		}
	}
}
