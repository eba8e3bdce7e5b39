package replicate

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

// TestForWantOfRoomWhatNobodyWantsGoesThoughItIsCurrent: a replica whose data was replaced has nothing else to point at
// until it has a clone of the new data.
func TestForWantOfRoomWhatNobodyWantsGoesThoughItIsCurrent(t *testing.T) {
	const far = 1 << 60 // bytes, for which there is no room
	for name, test := range map[string]struct {
		released []string
		left     string
	}{
		"while it may be wanted":        {nil, "g0.c1"},
		"when nobody wants it any more": {[]string{"g00", "g0"}, ""},
		"but never what is cloned":      {[]string{"g1"}, "g0.c1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := generation.Volume(t.TempDir())
			if _, err := v.Begin("g0.c1"); err != nil {
				t.Fatal(err)
			}
			g := generation.Generation{ID: "g0.c1", Of: "g0", SystemIdentifier: "7", MajorVersion: 17, Origin: generation.Clone, CreatedAt: time.Unix(1, 0)}
			if err := errors.Join(v.Complete(g), v.Adopt(g.ID)); err != nil {
				t.Fatal(err)
			}
			i := Instance{Volume: v, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
			if _, err := i.makeRoom(far, Wanted{DataGeneration: "g1", Released: test.released}); !errors.Is(err, ErrNoRoom) {
				t.Errorf("%v", err)
			}
			current, _ := v.Current()
			entries, err := v.List()
			if err != nil || current != test.left || len(entries) != len(strings.Fields(test.left)) {
				t.Errorf("current is %q, of %+v, %v", current, entries, err)
			}
		})
	}
}

// TestReleasedDataGoesBeforeACopyThatSomebodyMayLookAt: the unfit copy is kept for a while, and data that was released is of no use to anybody.
func TestReleasedDataGoesBeforeACopyThatSomebodyMayLookAt(t *testing.T) {
	const size = 256 << 20
	v := generation.Volume(t.TempDir())
	for _, g := range []generation.Generation{{ID: "g0", MajorVersion: 17}, {ID: "g1", MajorVersion: 17}} {
		pgdata, err := v.Begin(g.ID)
		if err != nil {
			t.Fatal(err)
		}
		g.SystemIdentifier, g.Origin, g.CreatedAt = "7", generation.Clone, time.Unix(1, 0)
		if err := errors.Join(os.Mkdir(pgdata, 0o700), allocate(filepath.Join(pgdata, "table"), size), v.Complete(g), v.Adopt(g.ID)); err != nil {
			t.Fatal(err)
		}
	}
	_, free, err := v.Space()
	if err != nil {
		t.Fatal(err)
	}
	i := Instance{Volume: v, Now: time.Now, Log: slog.New(slog.DiscardHandler), Major: 17}
	wanted := Wanted{DataGeneration: "g1", Replaces: "g1", Released: []string{"g0"}}
	bytes := (free + size/2 - spareRoom) * 20 / 21 // with its reserve it needs half of what is released
	reused, err := i.makeRoom(bytes, wanted)
	if err != nil || reused != "" || !v.Whole("g1") {
		t.Errorf("reused %q, %v; the unfit copy is whole: %v", reused, err, v.Whole("g1"))
	}
}

func TestACopyIsReusedOnlyWhereNobodyWantsItAndThatLeavesEnoughRoom(t *testing.T) {
	const size = 256 << 20
	for name, test := range map[string]struct {
		wanted Wanted
		major  int
		beyond int64 // what is free, in bytes
		want   string
	}{
		"it is unfit":                     {Wanted{DataGeneration: "g0", Replaces: "g0.c1"}, 17, size / 2, "g0.c1"},
		"its data was released":           {Wanted{DataGeneration: "g1", Released: []string{"g00", "g0"}}, 17, size / 2, "g0.c1"},
		"its data may be wanted":          {Wanted{DataGeneration: "g1", Released: []string{"g00"}}, 17, size / 2, ""},
		"it is of what is to be cloned":   {Wanted{DataGeneration: "g0", Released: []string{"g0"}}, 17, size / 2, ""},
		"it leaves too little room":       {Wanted{DataGeneration: "g0", Replaces: "g0.c1"}, 17, 3 * size, ""},
		"the version can't compare files": {Wanted{DataGeneration: "g0", Replaces: "g0.c1"}, 14, size / 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := generation.Volume(t.TempDir())
			pgdata, err := v.Begin("g0.c1")
			if err != nil {
				t.Fatal(err)
			}
			g := generation.Generation{ID: "g0.c1", Of: "g0", SystemIdentifier: "7", MajorVersion: test.major, Origin: generation.Clone, CreatedAt: time.Unix(1, 0)}
			if err := errors.Join(os.Mkdir(pgdata, 0o700), allocate(filepath.Join(pgdata, "table"), size), v.Complete(g), v.Adopt(g.ID)); err != nil {
				t.Fatal(err)
			}
			_, free, err := v.Space()
			if err != nil {
				t.Fatal(err)
			}
			i := Instance{Volume: v, Now: time.Now, Log: slog.New(slog.DiscardHandler), Major: test.major}
			if id, err := i.reusable(free+test.beyond, cmp.Or(test.wanted.Replaces, i.releasedCopy(test.wanted))); err != nil || id != test.want {
				t.Errorf("reused %q, %v", id, err)
			}
		})
	}
}

func TestACopyIsNotRemovedForACloneThatFindsNoRoomAllTheSame(t *testing.T) {
	const far = 1 << 60                        // bytes, for which there is no room
	for _, kept := range []bool{false, true} { // not even an unfit one, where that makes too little room
		v := generation.Volume(t.TempDir())
		if _, err := v.Begin("g1"); err != nil {
			t.Fatal(err)
		}
		g := generation.Generation{ID: "g1", SystemIdentifier: "7", MajorVersion: 17, Origin: generation.Initdb, CreatedAt: time.Unix(1, 0)}
		if err := errors.Join(v.Complete(g), v.Adopt(g.ID)); err != nil {
			t.Fatal(err)
		}
		i := Instance{Volume: v, Now: time.Now, Log: slog.New(slog.DiscardHandler), Major: 17}
		if _, err := i.makeRoom(far, Wanted{DataGeneration: "g1", Replaces: "g1", Kept: kept}); !errors.Is(err, ErrNoRoom) {
			t.Errorf("kept %v: %v", kept, err)
		}
		if current, _ := v.Current(); current != "g1" || !v.Whole("g1") {
			t.Errorf("kept %v: current is %q", kept, current)
		}
	}
}

// allocate makes a file that takes this many bytes of the disk.
func allocate(path string, bytes int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, bytes), file.Close())
}
