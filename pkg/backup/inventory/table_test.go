package inventory

import (
	"testing"

	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

func TestTheWindowsOfARepositoryAreTheTimesThatARestoreReaches(t *testing.T) {
	for _, c := range pitrtest.Cases() {
		if !c.Times() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			store := mem.New()
			c.Fill(t, store)
			reader := NewReader()
			for range 2 { // the second look reads no header again
				lineages, err := reader.Read(t.Context(), store)
				if err != nil || len(lineages) != 1 {
					t.Fatalf("%+v, %v", lineages, err)
				}
				c.CheckWindows(t, lineages[0].Windows)
			}
		})
	}
}
