package standbyjob

import (
	"os"
	"path/filepath"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestOnlyARequestForThisClusterPromotes(t *testing.T) {
	const end, now = agentapi.PromoteAtEndOfArchive, agentapi.PromoteImmediately
	following := record{Cluster: "u1", Restored: true}
	promoting := record{Cluster: "u1", Restored: true, Order: end}
	for name, c := range map[string]struct {
		before record
		wanted agentapi.StandbyWanted
		want   agentapi.StandbyPromotion
	}{
		"nothing is said":                            {following, agentapi.StandbyWanted{}, ""},
		"nothing is requested":                       {following, agentapi.StandbyWanted{Cluster: "u1"}, ""},
		"at the end of the archive":                  {following, agentapi.StandbyWanted{Cluster: "u1", Promote: end}, end},
		"immediately":                                {following, agentapi.StandbyWanted{Cluster: "u1", Promote: now}, now},
		"of a former cluster of that name":           {following, agentapi.StandbyWanted{Cluster: "u0", Promote: end}, ""},
		"of nobody":                                  {following, agentapi.StandbyWanted{Promote: end}, ""},
		"in words of a later version":                {following, agentapi.StandbyWanted{Cluster: "u1", Promote: "Later"}, ""},
		"before there is data":                       {record{Cluster: "u1"}, agentapi.StandbyWanted{Cluster: "u1", Promote: end}, ""},
		"before there is a record":                   {record{}, agentapi.StandbyWanted{Promote: end}, ""},
		"it can be hurried":                          {promoting, agentapi.StandbyWanted{Cluster: "u1", Promote: now}, now},
		"it can't be hurried by another cluster":     {promoting, agentapi.StandbyWanted{Cluster: "u0", Promote: now}, end},
		"it isn't taken back by who knows nothing":   {promoting, agentapi.StandbyWanted{Cluster: "u1"}, end},
		"it isn't slowed down":                       {record{Cluster: "u1", Restored: true, Order: now}, agentapi.StandbyWanted{Cluster: "u1", Promote: end}, now},
		"it is said twice":                           {promoting, agentapi.StandbyWanted{Cluster: "u1", Promote: end}, end},
		"it isn't taken back by an unknown new word": {promoting, agentapi.StandbyWanted{Cluster: "u1", Promote: "Later"}, end},
	} {
		t.Run(name, func(t *testing.T) {
			after, changed := c.before.heed(c.wanted)
			if after.Order != c.want || changed != (after.Order != c.before.Order) {
				t.Errorf("%q, changed: %t", after.Order, changed)
			}
		})
	}
}

func TestTheStageFollowsFromTheRecord(t *testing.T) {
	for want, r := range map[agentapi.StandbyStage]record{
		agentapi.StandbyRestoring: {Cluster: "u1", Lineage: "7-g0", Backup: "b"},
		agentapi.StandbyFollowing: {Cluster: "u1", Restored: true},
		agentapi.StandbyPromoting: {Cluster: "u1", Restored: true, Order: agentapi.PromoteImmediately},
	} {
		if got := r.stage(); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func TestARecordSurvives(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	if r, err := readRecord(volume, "g1"); err != nil || r != (record{}) {
		t.Fatalf("of none: %+v, %v", r, err)
	}
	if _, err := volume.Begin("g1"); err != nil {
		t.Fatal(err)
	}
	wrote := record{Cluster: "u1", Lineage: "7-g0", Backup: "first", Restored: true, Order: agentapi.PromoteAtEndOfArchive}
	if err := wrote.write(volume, "g1"); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(volume, "g1"); err != nil || r != wrote {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(volume.Dir("g1"), recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(volume, "g1"); err == nil {
		t.Error("one that can't be read is taken for none, and what is on the volume would be thrown away")
	}
}
