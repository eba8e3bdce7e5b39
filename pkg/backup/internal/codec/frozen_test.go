package codec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
)

// codingsFile has one frame of each coding, as it was written first: its number, and the stored bytes in base64. A line is
// added for a new coding; none changes, because what bears the number lies in people's buckets.
const codingsFile = "testdata/codings.txt"

// frozenContent is what each of them holds.
func frozenContent() []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%032d|an account|", 7919), 40)
}

func TestTheNumberOfACodingKeepsItsMeaning(t *testing.T) {
	lines, err := os.ReadFile(codingsFile)
	if err != nil {
		t.Fatal(err)
	}
	next := Coding(0)
	for line := range strings.Lines(string(lines)) {
		number, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
		stored, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || number != fmt.Sprint(next) {
			t.Fatalf("coding %d: the line begins with %s, %v", next, number, err)
		}
		content := make([]byte, len(frozenContent()))
		if err := decoders.DecodeFrame(next, stored, content); err != nil || !bytes.Equal(content, frozenContent()) {
			t.Errorf("coding %d no longer means what it did: %v", next, err)
		}
		next++
	}
	if next.Known() {
		t.Errorf("coding %d has no line in %s", next, codingsFile)
	}
}
