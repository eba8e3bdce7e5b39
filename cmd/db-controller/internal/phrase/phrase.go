package phrase

import (
	"fmt"
	"strings"
)

// First are the first of many sentences: a status is no log.
func First(sentences []string) string {
	const most, longest = 3, 300
	var parts []string
	for _, s := range sentences[:min(most, len(sentences))] {
		if len(s) > longest {
			s = strings.ToValidUTF8(s[:longest], "") + "…"
		}
		parts = append(parts, s)
	}
	if more := len(sentences) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(parts, "; ")
	return Sentence(strings.ToUpper(text[:1]) + text[1:])
}

// Sentence ends with a full stop.
func Sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// List of names, with commas between them.
func List(names []string) string { return strings.Join(names, ", ") }

// Prefixed is a text after a prefix, or nothing if it is empty.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
