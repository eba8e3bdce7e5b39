package main

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestOnlyDescriptionsOfKubernetesTypesAreRemoved(t *testing.T) {
	content, err := os.ReadFile("testdata/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/shorter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range [][]byte{content, want} { // also a second time
		got, err := shorten(given)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("it is\n%s", got)
		}
	}
}

func TestWhatHasNoSuchFieldsStaysAsItIs(t *testing.T) {
	const crd = "---\nspec:\n  versions:\n  - name: v1alpha1\n    schema:\n      openAPIV3Schema:\n        properties:\n          spec:\n            description: Spec.\n"
	got, err := shorten([]byte(crd))
	if err != nil || string(got) != crd {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := shorten([]byte("{")); err == nil {
		t.Error("what is no YAML is accepted")
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(got, &object); err != nil || !strings.HasPrefix(string(got), "---\n") {
		t.Error(err)
	}
}
