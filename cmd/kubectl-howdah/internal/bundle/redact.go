package bundle

import (
	"regexp"
	"slices"
)

// leftOut stands for what is not written.
const leftOut = "(left out)"

// own are the containers whose arguments Howdah writes. Those of others may contain passwords.
var own = []string{"agent", "install-agent", "pgbouncer", "postgres", "worker"}

var (
	secretName = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|api_?key|private_?key)`)
	// login is a user and a password in a URL.
	login = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s:@"']*:[^/\s"']+@`)
)

// redact removes from an object what may be secret, and what nobody reads: who wrote which field.
func redact(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	walk(object)
}

func walk(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			switch key {
			case "env":
				variables(child)
			case "containers", "initContainers":
				containers(child)
			case "parameters":
				parameters(child)
			}
			walk(child)
		}
	case []any:
		for _, child := range value {
			walk(child)
		}
	}
}

// variables lose their values, which are often passwords. Where a value comes from stays.
func variables(list any) {
	each(list, func(variable map[string]any) {
		if _, has := variable["value"]; has {
			variable["value"] = leftOut
		}
	})
}

func containers(list any) {
	each(list, func(container map[string]any) {
		if name, _ := container["name"].(string); slices.Contains(own, name) {
			return
		}
		for _, field := range []string{"args", "command"} {
			if _, has := container[field]; has {
				container[field] = []any{leftOut}
			}
		}
	})
}

// parameters of PostgreSQL and PgBouncer, some of which are those of extensions.
func parameters(values any) {
	all, _ := values.(map[string]any)
	for name := range all {
		if secretName.MatchString(name) {
			all[name] = leftOut
		}
	}
}

func each(list any, visit func(map[string]any)) {
	all, _ := list.([]any)
	for _, element := range all {
		if object, ok := element.(map[string]any); ok {
			visit(object)
		}
	}
}

// withoutLogins is a text without the users and passwords of its URLs.
func withoutLogins(text []byte) []byte {
	return login.ReplaceAll(text, []byte("${1}"+leftOut+"@"))
}
