package postgres

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// codePoints are ranges of code points, in order; the ends belong to them.
type codePoints [][2]rune

func (c codePoints) has(r rune) bool {
	_, found := slices.BinarySearchFunc(c, r, func(span [2]rune, r rune) int {
		switch {
		case span[1] < r:
			return -1
		case span[0] > r:
			return 1
		}
		return 0
	})
	return found
}

// PreparePassword normalises a password as PostgreSQL and libpq do before they hash it for SCRAM (SASLprep, RFC 4013). What that
// doesn't allow they take as it is, and so does this.
func PreparePassword(password string) string {
	if !utf8.ValidString(password) || !strings.ContainsFunc(password, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return password
	}
	mapped := strings.Map(func(r rune) rune {
		switch {
		case spaces.has(r):
			return ' '
		case vanishing.has(r):
			return -1
		}
		return r
	}, password)
	if mapped == "" || strings.ContainsFunc(mapped, prohibited.has) || !oneDirection([]rune(mapped)) {
		return password
	}
	return norm.NFKC.String(mapped)
}

// oneDirection says that a text is read in one direction: with a character that is read from right to left it has none that is read
// the other way, and it begins and ends with such characters.
func oneDirection(text []rune) bool {
	if !slices.ContainsFunc(text, rightToLeft.has) {
		return true
	}
	return !slices.ContainsFunc(text, leftToRight.has) && rightToLeft.has(text[0]) && rightToLeft.has(text[len(text)-1])
}
