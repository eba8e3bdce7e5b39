package apply

// contains says whether everything that is wanted is there with the same value. More may be there: defaults, and what
// others own.
func contains(live, wanted any) bool {
	switch want := wanted.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return live == nil && len(want) == 0
		}
		for name, value := range want {
			if !contains(have[name], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := live.([]any)
		return containsList(have, want)
	}
	return live == wanted
}

// containsList compares elements that have names by name, for server-side apply may order them otherwise.
func containsList(have, want []any) bool {
	if len(have) != len(want) {
		return false
	}
	byName := map[string]any{}
	for _, element := range have {
		if name := nameOf(element); name != "" {
			byName[name] = element
		}
	}
	for i, element := range want {
		counterpart := have[i]
		if len(byName) == len(have) {
			counterpart = byName[nameOf(element)]
		}
		if !contains(counterpart, element) {
			return false
		}
	}
	return true
}

func nameOf(element any) string {
	fields, _ := element.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
