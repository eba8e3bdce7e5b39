package postgres

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Parameter is one setting of postgresql.conf.
type Parameter struct {
	Name  string
	Value string // not quoted
}

// ErrParameter is wrapped by every refusal of a parameter.
var ErrParameter = errors.New("parameter refused")

var parameterName = regexp.MustCompile(`^[a-z_][a-z0-9_.]*$`)

// ParameterList puts parameters in the order of their names.
func ParameterList(params map[string]string) []Parameter {
	list := make([]Parameter, 0, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		list = append(list, Parameter{Name: name, Value: params[name]})
	}
	return list
}

// MergeParameters lays parameters over each other: a later value of a name wins. The result is in
// the order of names.
func MergeParameters(layers ...[]Parameter) []Parameter {
	merged := map[string]string{}
	for _, layer := range layers {
		for _, p := range layer {
			merged[p.Name] = p.Value
		}
	}
	return ParameterList(merged)
}

// RenderConf writes parameters as lines of postgresql.conf, in their order. It refuses what would be
// more than one setting a line.
func RenderConf(params []Parameter) (string, error) {
	var file strings.Builder
	for _, p := range params {
		if err := checkSyntax(p); err != nil {
			return "", err
		}
		fmt.Fprintf(&file, "%s = %s\n", p.Name, quoteConf(p.Value))
	}
	return file.String(), nil
}

func checkSyntax(p Parameter) error {
	if !parameterName.MatchString(p.Name) {
		return fmt.Errorf("%w: %q is not a parameter name: write lower case letters, digits, _ and a dot for an extension's", ErrParameter, p.Name)
	}
	if strings.ContainsAny(p.Value, "\x00\n\r") {
		return fmt.Errorf("%w: the value of %s has more than one line: write it on one", ErrParameter, p.Name)
	}
	return nil
}

// quoteConf quotes a value so that postgresql.conf gives it back as it is. A backslash escapes there.
func quoteConf(value string) string {
	return "'" + strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(value) + "'"
}
