package pruning

import (
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
)

// lastWrittenPhrase stands between the name of a lineage and the time when it was written last.
const lastWrittenPhrase = " last written "

// giveUpSentence is what a person writes to give up the last copy of a lineage: its name, and when it was written last. Empty: the
// lineage can't be given up here.
func giveUpSentence(l *inventory.Lineage, owner ownership.Owner) string {
	if owner == ownership.Living || owner.Foreign() {
		return ""
	}
	return l.Lineage.Lineage + lastWrittenPhrase + l.LastWritten.UTC().Format(time.RFC3339)
}

// isGivenUp says whether the spec of a repository has the sentence of a lineage. One that was written before more was written gives up
// nothing, nor does one of the future, which status can't have shown. While the lineage is being deleted, what is left of it was written
// earlier than the sentence says.
func isGivenUp(repo *v1alpha1.BackupRepository, l *inventory.Lineage, owner ownership.Owner, now time.Time) bool {
	if repo.Spec.Retention == nil || giveUpSentence(l, owner) == "" {
		return false
	}
	for _, sentence := range repo.Spec.Retention.GiveUp {
		name, text, _ := strings.Cut(sentence, lastWrittenPhrase)
		at, err := time.Parse(time.RFC3339, text)
		if err == nil && !at.After(now) && name == l.Lineage.Lineage && !l.LastWritten.Truncate(time.Second).After(at) {
			return true
		}
	}
	return false
}
