package logicalslot

import (
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

func adoption(cluster string, number int64, data string) generation.Adoption {
	return generation.Adoption{ClusterUID: cluster, Number: number, DataGeneration: data}
}

func TestDataHasComeBackWhenOtherDataRanSince(t *testing.T) {
	known := adoption("a", 3, "g0")
	for name, test := range map[string]struct {
		told generation.Adoption
		want bool
	}{
		"the same":                                      {known, false},
		"other data, which a Job has made":              {adoption("a", 4, "g1"), false},
		"a person's decision on the same data":          {adoption("a", 4, "g0"), false},
		"there and back":                                {adoption("a", 5, "g0"), true},
		"there and back several times":                  {adoption("a", 9, "g0"), true},
		"a status that was put back":                    {adoption("a", 2, "g0"), false},
		"another cluster's, whose generation is so too": {adoption("b", 9, "g0"), false},
	} {
		if got := cameBack(known, test.told); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if cameBack(generation.Adoption{}, known) {
		t.Error("data of which nothing is known")
	}
}

func TestOnlySlotsThatShallBeThereCanBeLost(t *testing.T) {
	told := ToldBy(agentapi.Config{ClusterUID: "a", Adoptions: 3, DataGeneration: "g0", ReplicationSlots: []agentapi.ReplicationSlot{{Name: "cdc"}, {Name: "old", Absent: true}}})
	if told.Adoption != adoption("a", 3, "g0") || len(told.Slots) != 1 || told.Slots[0] != "cdc" {
		t.Errorf("%+v", told)
	}
}
