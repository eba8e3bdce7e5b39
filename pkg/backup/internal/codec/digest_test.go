package codec

import "testing"

// TestTheDigestOfAFormatThatIsWrittenDownStaysAsItIs has values that manifests may hold.
func TestTheDigestOfAFormatThatIsWrittenDownStaysAsItIs(t *testing.T) {
	digester := NewDigester("7412345678901234567-g1/b1/abcdefgh")
	for content, want := range map[string]uint64{"": 0x404cbe355ceadd98, "a row of a table": 0xde04525eaa6a3854} {
		if got := digester.Digest([]byte(content)); got != want {
			t.Errorf("%q has %#x, want %#x", content, got, want)
		}
	}
	if NewDigester("another").Digest(nil) == digester.Digest(nil) {
		t.Error("another secret gives the same digest")
	}
}
