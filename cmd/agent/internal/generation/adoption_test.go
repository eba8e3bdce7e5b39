package generation_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
)

func TestAVolumeAcceptsNoAdoptionThatIsOlderThanTheOneItKnows(t *testing.T) {
	for name, c := range map[string]struct {
		known *generation.Adoption
		told  generation.Adoption
		good  bool
	}{
		"none, where none is known":            {nil, generation.Adoption{DataGeneration: "g0"}, true},
		"a volume that knows of none":          {nil, generation.Adoption{Number: 3, DataGeneration: "g3"}, true},
		"the one that it knows":                {&generation.Adoption{Number: 3, DataGeneration: "g3"}, generation.Adoption{Number: 3, DataGeneration: "g3"}, true},
		"a later one":                          {&generation.Adoption{Number: 1, DataGeneration: "g0"}, generation.Adoption{Number: 2, DataGeneration: "g1"}, true},
		"a later one that takes the data back": {&generation.Adoption{Number: 1, DataGeneration: "g1"}, generation.Adoption{Number: 2, DataGeneration: "g0"}, true},
		"an earlier one":                       {&generation.Adoption{Number: 1, DataGeneration: "g1"}, generation.Adoption{DataGeneration: "g0"}, false},
		"an earlier one of the same data":      {&generation.Adoption{Number: 2, DataGeneration: "g0"}, generation.Adoption{DataGeneration: "g0"}, false},
		"another one that has the same number": {&generation.Adoption{Number: 1, DataGeneration: "g1"}, generation.Adoption{Number: 1, DataGeneration: "g2"}, false},
		"that of a cluster that was created anew": {
			&generation.Adoption{Number: 2, DataGeneration: "g1"}, generation.Adoption{ClusterUID: "u2", Number: 1, DataGeneration: "g5"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			volume := generation.Volume(t.TempDir())
			if c.known != nil {
				if err := volume.Accept(*c.known); err != nil {
					t.Fatal(err)
				}
			}
			err := volume.Accept(c.told)
			if (err == nil) != c.good || !c.good && !errors.Is(err, generation.ErrOutdated) {
				t.Fatalf("accepted with %v", err)
			}
			want := c.told
			if !c.good {
				want = *c.known
			}
			if known, found, err := volume.Adoption(); err != nil || found != (want.Number > 0) || found && known != want {
				t.Errorf("the volume knows %+v, %v, %v; want %+v", known, found, err, want)
			}
		})
	}
}

func TestAnAdoptionThatCannotBeReadIsNoneThatMayBeReplaced(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(volume), "adoption.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := volume.Accept(generation.Adoption{Number: 1, DataGeneration: "g1"}); err == nil {
		t.Error("it was replaced")
	}
}
