package maintain

import (
	"slices"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

const (
	extensions = generation.MaintainExtensions
	statistics = generation.MaintainStatistics
)

func TestACloneKnowsWhatIsLeftOnlyByTheWordOfItsPrimary(t *testing.T) {
	m := &Maintainer{Dir: t.TempDir(), Generation: generation.Generation{ID: "g1.c1", Of: "g1", Origin: generation.Clone}}
	expect := func(when string, wanted []string, known bool) {
		t.Helper()
		if left, is := m.Left(); is != known || !slices.Equal(left, wanted) {
			t.Errorf("%s: %q, known %v", when, left, is)
		}
	}
	told := func(complete bool, left ...string) {
		t.Helper()
		if err := m.Told(left, complete); err != nil {
			t.Fatal(err)
		}
	}
	expect("before it was told", nil, false)
	told(false)
	expect("told that nothing is left, while it lacks what the primary has", nil, false)
	told(true, extensions, statistics)
	expect("told", []string{extensions, statistics}, true)
	told(false, statistics)
	expect("told of work that is done, while it lacks what the primary has", []string{extensions, statistics}, true)
	told(true, statistics)
	expect("once it has that", []string{statistics}, true)
	told(false, extensions)
	expect("told of more", []string{extensions, statistics}, true)
	told(true, "Collations", statistics)
	expect("told of work that each finds by itself", []string{statistics}, true)
	told(true)
	expect("told that nothing is left", nil, true)
}

func TestACloneThatWasToldThatNothingIsLeftKnowsThat(t *testing.T) {
	m := &Maintainer{Dir: t.TempDir(), Generation: generation.Generation{ID: "g1.c1", Of: "g1", Origin: generation.Clone}}
	if err := m.Told(nil, true); err != nil {
		t.Fatal(err)
	}
	if left, known := m.Left(); !known || len(left) > 0 {
		t.Errorf("%q, known %v", left, known)
	}
}

// It did the work, and another instance took over without what that has written.
func TestAFormerPrimaryDoesAgainWhatIsLeftAtItsSuccessor(t *testing.T) {
	m := &Maintainer{Dir: t.TempDir(), Generation: generation.Generation{ID: "g1", Origin: generation.Upgrade, Maintenance: []string{extensions, statistics}}}
	if err := m.write(marker{Done: []string{extensions, statistics}, Messages: []string{"kept"}}); err != nil {
		t.Fatal(err)
	}
	if err := m.Told([]string{statistics}, false); err != nil {
		t.Fatal(err)
	}
	if left, known := m.Left(); !known || !slices.Equal(left, []string{statistics}) {
		t.Errorf("%q, known %v", left, known)
	}
	if _, messages := m.Pending(); !slices.Equal(messages, []string{"kept"}) {
		t.Errorf("%q", messages)
	}
}
