package flow_test

import (
	"testing"

	"howdah.dev/howdah/pkg/flow"
)

func TestWhatOthersSaidBecomesASentence(t *testing.T) {
	for said, want := range map[string]string{
		"":                         "",
		"object x is corrupt":      "Object x is corrupt.",
		"It is stopped. It waits.": "It is stopped. It waits.",
		"pg_upgrade failed":        "pg_upgrade failed.",
		" spec.image is missing\n": "spec.image is missing.",
		"still copying...":         "Still copying.",
	} {
		if got := flow.Sentence(said); got != want {
			t.Errorf("%q: got %q", said, got)
		}
	}
}
