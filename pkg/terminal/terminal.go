// Package terminal writes texts that others may have chosen, such as names in a bucket, so that they don't steer the terminal of the person who
// reads them.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clean returns a writer that shows as escapes what isn't printable: controls such as ESC, and marks that turn the direction of a text. Line feeds
// and tabs stay. In JSON the escapes mean what was there.
func Clean(out io.Writer) io.Writer { return cleaner{out} }

type cleaner struct{ out io.Writer }

// Write takes whole characters.
func (c cleaner) Write(p []byte) (int, error) {
	if plain(p) {
		return c.out.Write(p)
	}
	if _, err := io.WriteString(c.out, clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain says that all is printable ASCII.
func plain(p []byte) bool {
	for _, b := range p {
		if (b < ' ' || b > '~') && b != '\n' && b != '\t' {
			return false
		}
	}
	return true
}

func clean(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] != "\uFFFD"[0]:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
