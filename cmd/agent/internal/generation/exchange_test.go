package generation

import (
	"os"
	"path/filepath"
	"testing"
)

// folders makes data generations that are not whole, each with a file that has its name.
func folders(t *testing.T, ids ...string) Volume {
	t.Helper()
	v := Volume(t.TempDir())
	for _, id := range ids {
		if _, err := v.Begin(id); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(v.Dir(id), "name"), []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// holds is which of them a folder was at first; empty: there is no folder.
func holds(t *testing.T, v Volume, id string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(v.Dir(id), "name"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(content)
}

func TestAnExchangeOfCopiesIsCompletedWhereverItIsInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		there     []string
		interrupt func(v Volume) error
		id, aside string
	}{
		"nothing was begun":       {[]string{"g1", "n"}, nil, "g1", ""},
		"between the two renames": {[]string{"g1", "n"}, func(v Volume) error { return os.Rename(v.Dir("g1"), v.Dir("p")) }, "n", "g1"},
		"after them":              {[]string{"g1", "n"}, func(v Volume) error { return Exchange(v, "g1", "n", "p") }, "n", "g1"},
		"the new one is lost":     {[]string{"p"}, nil, "p", ""},
		"there is nothing at all": {nil, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := folders(t, c.there...)
			if c.interrupt != nil {
				if err := c.interrupt(v); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := CompleteExchange(v, "g1", "n", "p"); err != nil {
					t.Fatal(err)
				}
			}
			if id, aside := holds(t, v, "g1"), holds(t, v, "p"); id != c.id || aside != c.aside {
				t.Errorf("%q, and %q aside", id, aside)
			}
		})
	}
}

func TestADataGenerationThatIsWholeIsNotExchanged(t *testing.T) {
	v := folders(t, "g1", "n", "p")
	if err := Exchange(v, "g1", "n", "p"); err == nil {
		t.Error("what was put aside before is overwritten")
	}
	if err := Exchange(v, "g1", "other", "q"); err == nil {
		t.Error("it was exchanged for nothing")
	}
	if err := v.Complete(Generation{ID: "g1", SystemIdentifier: "7", MajorVersion: 17}); err != nil {
		t.Fatal(err)
	}
	if err := Exchange(v, "g1", "n", "q"); err == nil || holds(t, v, "g1") != "g1" {
		t.Errorf("a promoted copy was replaced: %v", err)
	}
}
