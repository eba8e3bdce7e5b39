package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func clone(t *testing.T, v Volume, id, of string) {
	t.Helper()
	begin(t, v, id)
	g := Generation{ID: id, Of: of, SystemIdentifier: "7", MajorVersion: 17, Origin: Clone, CreatedAt: time.Unix(1, 0).UTC()}
	if err := v.Complete(g); err != nil {
		t.Fatal(err)
	}
}

func TestTheCopyToRunIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		originals, clones, halves []string
		current                   string
		want                      string
		original                  bool
	}{
		"nothing is there":                            {},
		"half of the original":                        {halves: []string{"g1"}},
		"the original, not adopted yet":               {originals: []string{"g1"}, want: "g1", original: true},
		"the original, adopted":                       {originals: []string{"g1"}, current: "g1", want: "g1", original: true},
		"a clone that replaced the original":          {originals: []string{"g1"}, clones: []string{"g1.c1"}, current: "g1.c1", want: "g1.c1"},
		"a clone that is not adopted yet":             {originals: []string{"g1"}, clones: []string{"g1.c1"}, current: "g1", want: "g1", original: true},
		"the newest clone, by number":                 {originals: []string{"g0"}, clones: []string{"g1.c9", "g1.c10"}, current: "g0", want: "g1.c10"},
		"the clone that replaced it, on the way back": {originals: []string{"g0", "g1"}, clones: []string{"g1.c1"}, current: "g0", want: "g1.c1"},
		"half of a clone":                             {originals: []string{"g0"}, halves: []string{"g1.c1"}, current: "g0"},
		"only other data generations":                 {originals: []string{"g0"}, clones: []string{"g0.c1", "g11.c1"}, current: "g0.c1"},
		"a current clone though there is a newer":     {clones: []string{"g1.c1", "g1.c2"}, current: "g1.c1", want: "g1.c1"},
		"a clone, where only clones ever were":        {clones: []string{"g1.c1"}, want: "g1.c1"},
		"the current one though half of a newer":      {clones: []string{"g1.c1"}, halves: []string{"g1.c2"}, current: "g1.c1", want: "g1.c1"},
		"the original from before a major's upgrade":  {originals: []string{"g1", "g2"}, current: "g2", want: "g1", original: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := Volume(t.TempDir())
			for _, id := range test.originals {
				complete(t, v, id)
			}
			for _, id := range test.clones {
				of, _, _ := strings.Cut(id, ".c")
				clone(t, v, id, of)
			}
			for _, id := range test.halves {
				begin(t, v, id)
			}
			if test.current != "" {
				if err := v.Adopt(test.current); err != nil {
					t.Fatal(err)
				}
			}
			g, err := v.Resolve("g1")
			if g.ID != test.want || (test.want == "") != errors.Is(err, ErrNotFound) {
				t.Errorf("%+v, %v", g, err)
			}
			if got := v.Original("g1"); got != test.original {
				t.Errorf("original: %v", got)
			}
		})
	}
}

func TestTheWayBackIsTheCopyThatRan(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g1")
	clone(t, v, "g1.c1", "g1")
	adopt := func(id string) {
		t.Helper()
		if err := v.Adopt(id); err != nil {
			t.Fatal(err)
		}
	}
	resolved := func(want string) {
		t.Helper()
		if g, err := v.Resolve("g1"); err != nil || g.ID != want {
			t.Errorf("%s, %v, want %s", g.ID, err, want)
		}
	}
	adopt("g1.c1")
	clone(t, v, "g1.c2", "g1") // it was whole when the agent died, before it could run
	complete(t, v, "g2")
	adopt("g2")
	resolved("g1.c1")
	adopt("g1.c1")
	adopt("g1.c2") // the first one was unfit
	adopt("g2")
	resolved("g1.c2")
	if err := os.WriteFile(filepath.Join(v.Dir("g1.c2"), "generation.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := v.Resolve("g1"); err == nil {
		t.Errorf("%s takes the place of one that can't be read", g.ID)
	}
	if all, err := AllCopies(v); err == nil {
		t.Errorf("one that can't be read is taken for gone: %+v", all)
	}
}

func TestANewerCopyThatCantBeReadIsNotPassedOver(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g1")
	clone(t, v, "g1.c1", "g1")
	if err := os.WriteFile(filepath.Join(v.Dir("g1.c1"), "generation.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := v.Resolve("g1"); err == nil {
		t.Errorf("%s takes its place", g.ID)
	}
}

func TestNoCopyIsChosenWhereThePointerCantBeRead(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g1")
	clone(t, v, "g1.c1", "g1")
	if err := os.WriteFile(filepath.Join(string(v), "current"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := v.Resolve("g1"); !errors.Is(err, ErrDamaged) {
		t.Errorf("%s, %v", g.ID, err)
	}
	if err := v.Adopt("g1.c1"); err != nil { // a clone that was made since
		t.Fatal(err)
	}
	if g, err := v.Resolve("g1"); err != nil || g.ID != "g1.c1" {
		t.Errorf("%s, %v", g.ID, err)
	}
}

func TestANewCopyIsNamedBehindAllOthers(t *testing.T) {
	v := Volume(t.TempDir())
	for _, test := range []struct{ add, want string }{{"g1", "g1.c1"}, {"g1.c2", "g1.c3"}, {"g1.c10", "g1.c11"}, {"g1.c", "g1.c11"}, {"g11.c40", "g1.c11"}} {
		begin(t, v, test.add)
		if got, err := v.NextCopy("g1"); got != test.want || err != nil {
			t.Errorf("with %s it is %s, %v; want %s", test.add, got, err, test.want)
		}
	}
}

func TestAHalfRewoundCopyIsKnownUntilItIsWholeAgain(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g1")
	if v.Rewinding("g1") {
		t.Error("before")
	}
	if err := v.BeginRewind("g1"); err != nil {
		t.Fatal(err)
	}
	if g, err := v.Resolve("g1"); !v.Rewinding("g1") || v.Whole("g1") || g.ID != "g1" || err != nil {
		t.Errorf("during: %+v, %v", g, err)
	}
	for range 2 {
		if err := v.EndRewind("g1"); err != nil || v.Rewinding("g1") || !v.Whole("g1") {
			t.Errorf("after: %v", err)
		}
	}
}

func TestACopyIsRemovedSomeTimeAfterItWasReplaced(t *testing.T) {
	v := Volume(t.TempDir())
	now := time.Unix(1e9, 0)
	old := func(keep string, hours int) []string {
		t.Helper()
		removed, err := v.RemoveOldCopies(keep, time.Hour, now.Add(time.Duration(hours)*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return removed
	}
	if got := old("", 0); got != nil {
		t.Errorf("nothing was adopted, and it removed %v", got)
	}
	complete(t, v, "g0")
	clone(t, v, "g0.c1", "g0")
	complete(t, v, "g1")
	clone(t, v, "g1.c1", "g1")
	clone(t, v, "g1.c2", "g1")
	if err := v.Adopt("g1.c1"); err != nil {
		t.Fatal(err)
	}
	if got := old("g1.c2", 0); got != nil {
		t.Errorf("at once it removed %v", got)
	}
	if got := old("g1.c2", 1); !slices.Equal(got, []string{"g1"}) {
		t.Errorf("after an hour it removed %v", got)
	}
	if err := v.Adopt("g1.c2"); err != nil {
		t.Fatal(err)
	}
	if got := old("g1.c2", 2); got != nil {
		t.Errorf("as soon as another was adopted it removed %v", got)
	}
	if err := v.Adopt("g1.c1"); err != nil { // and back: its time begins anew
		t.Fatal(err)
	}
	if err := v.Adopt("g1.c2"); err != nil {
		t.Fatal(err)
	}
	if got := old("g1.c2", 3); got != nil {
		t.Errorf("as soon as another was adopted again it removed %v", got)
	}
	if got, err := v.RemoveOldCopies("", 0, now); !slices.Equal(got, []string{"g1.c1"}) || err != nil {
		t.Errorf("for room it removed %v, %v", got, err)
	}
	entries, err := v.List()
	if err != nil || len(entries) != 3 || entries[0].ID != "g0" || entries[1].ID != "g0.c1" || entries[2].ID != "g1.c2" {
		t.Errorf("left: %+v, %v", entries, err)
	}
}

func TestTheSpaceOfTheVolumeIsKnown(t *testing.T) {
	total, free, err := Volume(t.TempDir()).Space()
	if err != nil || free <= 0 || total < free {
		t.Errorf("%d of %d, %v", free, total, err)
	}
}

func TestAllCopiesOfAnUnwantedDataGenerationGoButNeverTheCurrentOne(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g0")
	clone(t, v, "g0.c1", "g0")
	complete(t, v, "g1")
	clone(t, v, "g1.c1", "g1")
	if err := os.MkdirAll(v.Dir("g0.c2"), 0o700); err != nil { // a clone that was never completed
		t.Fatal(err)
	}
	if err := v.Adopt("g1.c1"); err != nil {
		t.Fatal(err)
	}
	if removed, err := v.Release("g1"); !errors.Is(err, ErrCurrent) || removed != nil {
		t.Errorf("of the current one it removed %v, %v", removed, err)
	}
	if removed, err := v.Release("g0"); err != nil || !slices.Equal(removed, []string{"g0", "g0.c1", "g0.c2"}) {
		t.Errorf("it removed %v, %v", removed, err)
	}
	if removed, err := v.Release("g0"); err != nil || removed != nil {
		t.Errorf("again it removed %v, %v", removed, err)
	}
	if entries, err := v.List(); err != nil || len(entries) != 2 {
		t.Errorf("left: %+v, %v", entries, err)
	}
	if _, err := v.Release("../x"); !errors.Is(err, ErrName) {
		t.Errorf("a name that is no name: %v", err)
	}
}

func TestAnAbandonedDataGenerationGoesEvenIfItIsTheCurrentOne(t *testing.T) {
	v := Volume(t.TempDir())
	complete(t, v, "g0")
	clone(t, v, "g0.c1", "g0")
	complete(t, v, "g00")
	if err := v.Adopt("g0.c1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(v.PGData("g0")+".x", make([]byte, 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	if used, err := v.Used("g0"); err != nil || used < 9000 || used > 100000 {
		t.Errorf("%d bytes, %v", used, err)
	}
	if removed, err := v.Abandon("g0"); err != nil || !slices.Equal(removed, []string{"g0", "g0.c1"}) {
		t.Errorf("it removed %v, %v", removed, err)
	}
	if _, err := v.Current(); !errors.Is(err, ErrNotFound) {
		t.Errorf("current: %v", err)
	}
	if removed, err := v.Abandon("g0"); err != nil || len(removed) > 0 {
		t.Errorf("again it removed %v, %v", removed, err)
	}
	if err := v.Adopt("g00"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Abandon("g0"); err != nil {
		t.Error(err)
	}
	if id, err := v.Current(); err != nil || id != "g00" {
		t.Errorf("that of another: %s, %v", id, err)
	}
}
