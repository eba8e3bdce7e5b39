package logicalslot

import (
	"strings"
	"testing"
)

func TestASlotIsSetAsideUnderANameThatTellsWhoseItIs(t *testing.T) {
	long := strings.Repeat("x", 62)
	for _, name := range []string{"cdc", "7", "_", "howdah_aside_2_cdc", long + "a", long + "b"} {
		aside := asideName(12, name)
		if len(aside) > 63 || asideNumber(aside, name) != 12 {
			t.Errorf("%s: %s", name, aside)
		}
	}
	for _, other := range []string{"cdc", "howdah_aside_", "howdah_aside_x_cdc", "howdah_aside_2_cdcs", "howdah_aside_0_cdc", asideName(12, long+"a")} {
		if asideNumber(other, "cdc") != 0 || asideNumber(other, long+"b") != 0 {
			t.Errorf("%s is taken for another slot's", other)
		}
	}
	slots := map[string]slot{}
	for _, name := range []string{"cdc", "howdah_aside_3_cdc", "howdah_aside_12_cdc", "howdah_aside_20_other"} {
		slots[name] = slot{Name: name}
	}
	if found := asides(slots, "cdc"); len(found) != 2 || found[0].Name != "howdah_aside_12_cdc" {
		t.Errorf("%+v", found)
	}
}
