package postgres

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestTheVerifierOfAKnownPasswordAndSaltIsKnown(t *testing.T) {
	// The exchange of RFC 7677: user, pencil. Its server's signature follows from this ServerKey.
	salt := []byte{0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81}
	got, err := ScramVerifier("pencil", bytes.NewReader(salt))
	want := "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAVerifierMatchesItsPasswordOnly(t *testing.T) {
	verifier, err := ScramVerifier("Grüße 1'\\", strings.NewReader("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if !ScramMatches(verifier, "Grüße 1'\\") || ScramMatches(verifier, "Grüße 2'\\") {
		t.Error("match")
	}
	for _, stored := range []string{"", "md5abc", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$a:b", "SCRAM-SHA-256$999999999:AA==$a:b", "SCRAM-SHA-256$4096:%$a:b"} {
		if ScramMatches(stored, "x") {
			t.Errorf("%q", stored)
		}
	}
}

func TestAVerifierOfMoreIterationsThanAnyServerNeedsIsNotComputed(t *testing.T) {
	for iterations, matches := range map[int]bool{maxScramIterations: true, maxScramIterations + 1: false} {
		verifier, err := scramVerifier("x", []byte("0123456789abcdef"), iterations)
		if err != nil {
			t.Fatal(err)
		}
		if ScramMatches(verifier, "x") != matches {
			t.Errorf("%d iterations match: %t", iterations, !matches)
		}
	}
}

func TestAPasswordThatClientsReadDifferentlyIsRefusedUnseen(t *testing.T) {
	for _, password := range []string{"", "a\x00b", "ﬁnal", "cafe\u0301", "soft\u00adhyphen", "hard\u00a0space", "zero\u200bwidth"} {
		_, err := ScramVerifier(password, strings.NewReader("0123456789abcdef"))
		if !errors.Is(err, ErrPassword) || password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("%q: %v", password, err)
		}
	}
	if _, err := ScramVerifier("x", strings.NewReader("short")); err == nil {
		t.Error("a short salt is accepted")
	}
}

func TestQuotesAreDoubledInNamesAndLiterals(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{QuoteIdentifier(`a"b` + "\x00"), `"a""b"`},
		{QuoteLiteral(`it's`), `'it''s'`},
		{QuoteLiteral(`a\'b`), ` E'a\\''b'`},
		{QuoteConnInfo(`a'b\`), `'a\'b\\'`},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
