package roles

import (
	"encoding/base64"
	"testing"
)

func TestAVerifierIsThatOfTheStandard(t *testing.T) {
	// RFC 7677, section 3: user "user", password "pencil".
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	got, err := makeVerifier("pencil", salt, 4096)
	want := "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if err != nil || got != want {
		t.Errorf("got  %s\nwant %s, %v", got, want, err)
	}
	if !verifies(want, "pencil") {
		t.Error("the password is not known again")
	}
}

func TestOnlyTheRightPasswordIsKnownAgain(t *testing.T) {
	verifier, err := makeVerifier("right", []byte("0123456789abcdef"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		stored, password string
		want             bool
	}{
		"the right one":           {verifier, "right", true},
		"a wrong one":             {verifier, "wrong", false},
		"an MD5 hash":             {"md5d41d8cd98f00b204e9800998ecf8427e", "right", false},
		"nothing":                 {"", "right", false},
		"half a verifier":         {verifier[:30], "right", false},
		"iterations without end":  {"SCRAM-SHA-256$999999999999:AAAA$B:C", "right", false},
		"a salt that is no salt":  {"SCRAM-SHA-256$1:!$B:C", "right", false},
		"iterations that are nil": {"SCRAM-SHA-256$0:AAAA$B:C", "right", false},
	} {
		if got := verifies(test.stored, test.password); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAPasswordIsHashedAsOftenAsTheServerIsSetTo(t *testing.T) {
	text := func(s string) *string { return &s }
	for setting, want := range map[*string]int{nil: 4096, text(""): 4096, text("10000"): 10000} {
		if got := iterationsOf(setting); got != want {
			t.Errorf("%d, not %d", got, want)
		}
	}
}
