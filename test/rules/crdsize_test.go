package rules

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEveryCRDFitsAClientSideApply: kubectl apply keeps the whole object in an annotation, and Kubernetes takes 256 KiB of those.
func TestEveryCRDFitsAClientSideApply(t *testing.T) {
	const limit = 256<<10 - 4<<10 // some room for the annotations of others
	files, err := filepath.Glob("../../config/crd/howdah.dev_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		if len(applied) > limit {
			t.Errorf("%s has %d bytes, of which %d fit: say less, or embed less of Kubernetes' own types", filepath.Base(file), len(applied), limit)
		}
	}
}
