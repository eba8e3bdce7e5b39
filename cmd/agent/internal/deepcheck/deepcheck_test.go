package deepcheck

import (
	"path/filepath"
	"testing"
	"time"
)

func TestARoundIsThatOfOneCopyInOneRole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checks.json")
	walker := func(of string, primary bool) *Walker { return &Walker{File: file, Copy: of, Primary: primary} }
	first := walker("g1", false)
	first.load()
	first.place.Database, first.place.RoundEnded = 7, time.Now()
	first.place.Damaged = []Damage{{Database: "shop", OID: 9, Index: "public.a"}}
	first.save()
	for name, c := range map[string]struct {
		walker          *Walker
		damaged         int
		ended, database bool
	}{
		"an agent that was started anew": {walker("g1", false), 1, true, true},
		"a promoted replica":             {walker("g1", true), 1, false, false}, // with amcheck everywhere, it finds more
		"another copy":                   {walker("g1.c1", false), 0, false, false},
	} {
		if place := c.walker.Place(); len(place.Damaged) != c.damaged || place.RoundEnded.IsZero() == c.ended || (place.Database != 0) != c.database {
			t.Errorf("%s: %+v", name, place)
		}
	}
}
