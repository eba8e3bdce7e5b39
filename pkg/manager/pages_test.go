package manager

import (
	"slices"
	"strings"
	"testing"
)

func TestOnlyWhatIsAsOnDiskIsGivenBack(t *testing.T) {
	const smaps = `00400000-014ad000 r-xp 00000000 00:6e 11829649                           /program
Rss:                7912 kB
Anonymous:             0 kB
014ad000-02555000 r--p 010ad000 00:6e 11829649                           /program
Anonymous:            12 kB
02555000-025eb000 rw-p 02155000 00:6e 11829649                           /program
Anonymous:             0 kB
03000000-03001000 r--p 00000000 00:6e 11829650                           /another
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00001000 00:6e 11829649                   /program
Anonymous:             0 kB
`
	parts, err := untouched(strings.NewReader(smaps), "/program")
	if want := []part{{0x400000, 0x14ad000}, {0x7f0000000000, 0x7f0000001000}}; err != nil || !slices.Equal(parts, want) {
		t.Errorf("got %x, %v", parts, err)
	}
}

func TestAProgramGoesOnWithItsPagesGivenBack(t *testing.T) {
	if err := giveBackProgram(); err != nil {
		t.Fatal(err)
	}
	if scheme := Scheme(); len(scheme.AllKnownTypes()) == 0 {
		t.Error("nothing is known any more")
	}
}
