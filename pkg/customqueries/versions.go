package customqueries

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Versions are comparisons that a server's major version has to satisfy.
type Versions []Comparison

// Comparison of a major version.
type Comparison struct {
	Operator string `json:"operator"`
	Major    int    `json:"major"`
}

var comparison = regexp.MustCompile(`^(>=|<=|>|<|=|==|!=)?v?([0-9]{1,3})(\.[0-9]+)*$`)

// parseVersions reads comparisons such as ">=15 <18.0.0". Only the major version counts: before version 10, numbers meant something else.
func parseVersions(text string) (Versions, error) {
	var versions Versions
	text = regexp.MustCompile(`([<>=!])\s+`).ReplaceAllString(text, "$1")
	for _, word := range strings.Fields(text) {
		parts := comparison.FindStringSubmatch(word)
		if parts == nil {
			return nil, fmt.Errorf("runonserver must be comparisons with a version, such as \">=17.0.0\", instead of %q", clip(text))
		}
		major, err := strconv.Atoi(parts[2])
		if err != nil {
			return nil, err
		}
		operator := strings.TrimSuffix(parts[1], "=")
		if parts[1] == ">=" || parts[1] == "<=" || parts[1] == "!=" {
			operator = parts[1]
		}
		versions = append(versions, Comparison{operator, major})
	}
	return versions, nil
}

// Has says whether a major version satisfies all of them.
func (v Versions) Has(major int) bool {
	for _, c := range v {
		if !c.holds(major) {
			return false
		}
	}
	return true
}

func (c Comparison) holds(major int) bool {
	switch c.Operator {
	case ">=":
		return major >= c.Major
	case "<=":
		return major <= c.Major
	case ">":
		return major > c.Major
	case "<":
		return major < c.Major
	case "!=":
		return major != c.Major
	}
	return major == c.Major
}
