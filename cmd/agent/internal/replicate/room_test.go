package replicate

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

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
			if err := i.makeRoom(far, Wanted{DataGeneration: "g1", Released: test.released}); !errors.Is(err, ErrNoRoom) {
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
