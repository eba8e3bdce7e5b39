// Command shortencrds removes the descriptions of Kubernetes' own types, such as tolerations, from CustomResourceDefinitions: Kubernetes documents them, and
// kubectl apply takes no object whose JSON has more than 256 KiB.
//
//	go run ./tools/shortencrds config/crd/howdah.dev_*.yaml
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// borrowed are the fields of a spec that have types of Kubernetes. They keep their own descriptions.
var borrowed = [][]string{{"scheduling", "nodeAffinity"}, {"scheduling", "tolerations"}, {"scheduling", "topologySpreadConstraints"}}

func main() {
	for _, file := range os.Args[1:] {
		if err := rewrite(file); err != nil {
			fmt.Fprintln(os.Stderr, "shortencrds:", err)
			os.Exit(1)
		}
	}
}

func rewrite(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	shorter, err := shorten(content)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, shorter, 0o644)
}

// shorten is a CustomResourceDefinition, as controller-gen writes it, without the descriptions below borrowed fields.
func shorten(content []byte) ([]byte, error) {
	crd := map[string]any{}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return nil, err
	}
	versions, _ := at(crd, "spec")["versions"].([]any)
	for _, version := range versions {
		version, _ := version.(map[string]any)
		spec := at(version, "schema", "openAPIV3Schema", "properties", "spec")
		for _, path := range borrowed {
			field := spec
			for _, name := range path {
				field = at(field, "properties", name)
			}
			for key, below := range field {
				if key != "description" {
					remove(below, false)
				}
			}
		}
	}
	shorter, err := yaml.Marshal(crd)
	return append([]byte("---\n"), shorter...), err
}

// at is the object at a path; empty: there is none.
func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

// remove takes the descriptions out of a schema, but not a property of that name.
func remove(schema any, names bool) {
	switch schema := schema.(type) {
	case map[string]any:
		if _, isText := schema["description"].(string); isText && !names {
			delete(schema, "description")
		}
		for key, below := range schema {
			remove(below, key == "properties" && !names)
		}
	case []any:
		for _, below := range schema {
			remove(below, false)
		}
	}
}
