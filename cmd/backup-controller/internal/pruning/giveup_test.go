package pruning

import (
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
)

func TestALineageIsGivenUpByItsNameAndWhenItWasWrittenLast(t *testing.T) {
	l := &inventory.Lineage{Lineage: layout.Lineage{Lineage: "7-g1"}, LastWritten: now}
	const sentence = "7-g1 last written 2026-03-04T05:06:07Z"
	for owner, want := range map[ownership.Owner]string{
		ownership.Gone: sentence, ownership.Past: sentence, ownership.Living: "", ownership.Elsewhere: "", ownership.Unknown: "", ownership.Unsettled: "",
	} {
		if got := giveUpSentence(l, owner); got != want {
			t.Errorf("owner %d: %q", owner, got)
		}
	}
	repo, later := &v1alpha1.BackupRepository{}, now.Add(48*time.Hour)
	if isGivenUp(repo, l, ownership.Gone, later) {
		t.Error("it is given up without a policy")
	}
	for text, want := range map[string]bool{
		sentence: true, "": false, "7-g1": false, "7-g2 last written 2026-03-04T05:06:07Z": false,
		"7-g1 last written 2026-03-04T05:06:06Z": false, // and more was written since
		"7-g1 last written 2026-03-05T00:00:00Z": true,  // of which the newest part is deleted already
		"7-g1 last written 2099-01-01T00:00:00Z": false, // which status never said, and gives up what is yet to be written
	} {
		repo.Spec.Retention = &v1alpha1.RetentionSpec{GiveUp: []string{text}}
		if isGivenUp(repo, l, ownership.Gone, later) != want || isGivenUp(repo, l, ownership.Living, later) || isGivenUp(repo, l, ownership.Unknown, later) {
			t.Errorf("%q gives it up: %t", text, !want)
		}
	}
}
