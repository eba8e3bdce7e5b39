package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// before makes a volume whose g0 has two copies, the clone being the current one, each with a file that has its name.
func before(t *testing.T) Volume {
	t.Helper()
	v := Volume(t.TempDir())
	complete(t, v, "g0")
	clone(t, v, "g0.c1", "g0")
	complete(t, v, "other")
	for _, id := range []string{"g0", "g0.c1"} {
		if err := errors.Join(os.MkdirAll(v.PGData(id), 0o700), os.WriteFile(filepath.Join(v.PGData(id), "name"), []byte(id), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Adopt("g0.c1"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Begin("g1"); err != nil {
		t.Fatal(err)
	}
	return v
}

// has expects that g1 is not whole and has the data of a copy, and that nothing is left of g0.
func (v Volume) has(t *testing.T, copy string) {
	t.Helper()
	if content, err := os.ReadFile(filepath.Join(v.PGData("g1"), "name")); err != nil || string(content) != copy {
		t.Errorf("it has the data of %q, %v", content, err)
	}
	if _, err := v.Read("g1"); !errors.Is(err, ErrIncomplete) {
		t.Errorf("g1 is whole: %v", err)
	}
	if ids, err := v.ids(); err != nil || !slices.Equal(ids, []string{"g1", "other"}) {
		t.Errorf("there are %v, %v", ids, err)
	}
	if _, err := v.Current(); !errors.Is(err, ErrNotFound) {
		t.Errorf("current: %v", err)
	}
}

func TestANewDataGenerationInheritsTheDataOfTheOneBefore(t *testing.T) {
	v := before(t)
	removed, err := v.Inherit("g1", "g0", "g0.c1")
	if err != nil || !slices.Equal(removed, []string{"g0", "g0.c1"}) {
		t.Errorf("it removed %v, %v", removed, err)
	}
	v.has(t, "g0.c1")
	if _, err := v.Inherit("g1", "g0", ""); err != nil {
		t.Error(err)
	}
	v.has(t, "g0.c1")
}

// TestAnInheritanceThatWasCutOffAnywhereIsCompletedByTheNextRun takes the states that a run leaves that is killed.
func TestAnInheritanceThatWasCutOffAnywhereIsCompletedByTheNextRun(t *testing.T) {
	steps := []func(v Volume) error{
		func(v Volume) error { return v.removePointer() },
		func(v Volume) error { return os.Remove(filepath.Join(v.Dir("g0.c1"), file)) },
		func(v Volume) error { return os.Rename(v.PGData("g0.c1"), v.PGData("g1")) },
		func(v Volume) error { return os.Remove(filepath.Join(v.Dir("g0"), file)) },
		func(v Volume) error { return os.RemoveAll(v.Dir("g0")) },
		func(v Volume) error { return os.RemoveAll(v.Dir("g0.c1")) },
	}
	for killed := range len(steps) + 1 {
		v := before(t)
		for _, step := range steps[:killed] {
			if err := step(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(v.Dir("g1"), "spool"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		copy := ""
		if g, err := v.Resolve("g0"); err == nil {
			copy = g.ID
		}
		_, errContinue := v.Continue("g1")
		if _, err := v.Inherit("g1", "g0", copy); errors.Join(err, errContinue) != nil {
			t.Errorf("killed after step %d: %v, %v", killed, err, errContinue)
		}
		want := "g0.c1"
		if killed == 2 {
			want = "g0" // the one that is still whole, or any other: the restore looks at what it gets
		}
		v.has(t, want)
		if _, err := os.Stat(filepath.Join(v.Dir("g1"), "spool")); err == nil {
			t.Errorf("killed after step %d: what the run left is still there", killed)
		}
	}
}

func TestWhatIsWholeIsNotContinued(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g1")
	if _, err := v.Continue("g1"); !errors.Is(err, ErrWhole) {
		t.Errorf("%v", err)
	}
	if _, err := v.Continue("../x"); !errors.Is(err, ErrName) {
		t.Errorf("%v", err)
	}
	if pgdata, err := v.Continue("g2"); err != nil || pgdata != v.PGData("g2") {
		t.Errorf("%s, %v", pgdata, err)
	}
}

func TestNothingIsInheritedFromAVolumeThatHasNothing(t *testing.T) {
	v := before(t)
	for _, c := range []struct {
		id, before string
		want       bool
	}{{"g1", "g0", true}, {"g1", "g5", false}, {"g0", "g5", true}} {
		if got, err := CanInherit(v, c.id, c.before); got != c.want || err != nil {
			t.Errorf("%s from %s: %t, %v", c.id, c.before, got, err)
		}
	}
	if err := os.Remove(filepath.Join(v.Dir("g0"), file)); err != nil { // a former run was killed
		t.Fatal(err)
	}
	if got, err := CanInherit(v, "g1", "g0"); !got || err != nil {
		t.Errorf("from what is no longer whole: %t, %v", got, err)
	}
}
