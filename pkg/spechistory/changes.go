package spechistory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"howdah.dev/apis/v1alpha1"
)

// Changes says in a line for each field what differs from one spec to another, in the order of their names: spec.instances: 3 -> 5. What
// is requested once is left out.
func Changes(from, to *v1alpha1.PostgresClusterSpec) ([]string, error) {
	before, after := map[string]string{}, map[string]string{}
	for spec, into := range map[*v1alpha1.PostgresClusterSpec]map[string]string{withoutRequests(from): before, withoutRequests(to): after} {
		data, err := json.Marshal(spec)
		if err != nil {
			return nil, fmt.Errorf("encode the spec: %w", err)
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			return nil, fmt.Errorf("decode the spec: %w", err)
		}
		flatten("spec", value, into)
	}
	all := maps.Clone(before)
	maps.Copy(all, after)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if was, is := before[path], after[path]; was != is {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", path, orUnset(was), orUnset(is)))
		}
	}
	return lines, nil
}

func orUnset(value string) string {
	if value == "" {
		return "(not set)"
	}
	return value
}

// flatten has a line for each value that is no object. Lists are one value.
func flatten(path string, value any, into map[string]string) {
	if object, is := value.(map[string]any); is {
		for name, inner := range object {
			flatten(path+"."+name, inner, into)
		}
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was JSON
	}
	into[path] = string(text)
}
