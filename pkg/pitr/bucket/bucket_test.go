package bucket

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

func examine(t *testing.T, store objstore.Store, c *pitrtest.Case) Examined {
	t.Helper()
	var owners []layout.Lineage
	for _, l := range c.Lineages {
		owner, err := layout.ReadLineage(t.Context(), store, l.Name)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, owner)
	}
	found, err := Examine(t.Context(), store, owners, c.BackupID, c.Target)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryCaseOfTheTableIsReadFromABucket(t *testing.T) {
	for _, c := range pitrtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			store := mem.New()
			c.Fill(t, store)
			found := examine(t, store, &c)
			v := pitr.Decide(found.Candidates, c.Target, c.Facts)
			c.Want.Check(t, v)
			if v.Code == pitr.Reachable && v.Candidate.Reach.Backup.ID != c.Want.Backup {
				t.Errorf("the backup is %+v", v.Candidate.Reach.Backup)
			}
			namesDamaged(t, &c, v)
		})
	}
}

// namesDamaged: where no backup was found, one that can't be read may be the one that is missed.
func namesDamaged(t *testing.T, c *pitrtest.Case, v pitr.Verdict) {
	t.Helper()
	for _, l := range c.Lineages {
		for _, id := range l.Damaged {
			if !slices.ContainsFunc(v.Damaged, func(why string) bool { return strings.Contains(why, layout.ManifestKey(l.Name, id)) }) {
				t.Errorf("backup %s can't be read, and nobody is told: %q", id, v.Damaged)
			}
		}
	}
}
