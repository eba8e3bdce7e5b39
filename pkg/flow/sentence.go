package flow

import "strings"

// Sentence makes a sentence of what somebody else said: it ends with one full stop, and begins with a capital where it begins
// with a word. Nothing stays nothing.
func Sentence(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), ".")
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	if strings.IndexFunc(first, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return s + "."
}
