package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestWhatSteersATerminalIsShown(t *testing.T) {
	for text, want := range map[string]string{
		"ok\tdemo/shop\n":    "ok\tdemo/shop\n",
		"Müller 日本 😀 \uFFFD": "Müller 日本 😀 \uFFFD",
		"\x1b[2J":            `\u001b[2J`,
		"a\rb\x00\x07\x7f":   `a\u000db\u0000\u0007\u007f`,
		"\u009b31m":          `\u009b31m`,
		"\u202egnp.exe":      `\u202egnp.exe`,
		"\U000E0041":         `\udb40\udc41`,
		"a\x9bb\xe2\x28":     `a\x9bb\xe2(`,
	} {
		var out bytes.Buffer
		n, err := Clean(&out).Write([]byte(text))
		if n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %q, %d, %v", text, out.String(), n, err)
		}
	}
}

func TestJSONStaysWhatItWas(t *testing.T) {
	was, is := "\x1b\x7f\u009b\u202e\U000E0041é", ""
	var out bytes.Buffer
	if err := json.NewEncoder(Clean(&out)).Encode(was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &is); err != nil || is != was {
		t.Errorf("%q became %q (%v) in %s", was, is, err, out.Bytes())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestAnErrorIsReturned(t *testing.T) {
	for _, text := range []string{"a", "\x1b"} {
		if _, err := Clean(broken{}).Write([]byte(text)); err == nil {
			t.Errorf("%q: none", text)
		}
	}
}
