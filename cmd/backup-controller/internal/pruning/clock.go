package pruning

import (
	"fmt"

	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/objstore"
)

// clockDiffers says in a sentence that the clock that ages are counted by is not that of the bucket; empty: they agree. With one that is ahead, every
// backup would be old. The lineage must be locked in the bucket, which tells what time it is there.
func (r *run) clockDiffers(lineage string) string {
	here := r.now.Add(r.Now().Sub(r.now)) // the same clock as r.now, even if it was set since
	differs := objstore.ClockDiffers(here, r.Deletions.ServerTime(r.repo, lineage))
	if differs == "" {
		return ""
	}
	return fmt.Sprintf("Nothing is removed from lineage %s: %s Correct the clock of the node on which the backup-controller runs, or that of the object store.", lineage, differs)
}

// fromTheFuture says in a sentence that the newest backup ended later than it is now: either its clock or the one here is wrong, and ages say
// nothing. Empty: it did not.
func (r *run) fromTheFuture(l *inventory.Lineage) string {
	if len(l.Backups) == 0 {
		return ""
	}
	newest := l.Backups[0]
	if !newest.Stopped.After(r.now) || objstore.ClockDiffers(r.now, newest.Stopped) == "" {
		return ""
	}
	return fmt.Sprintf("Nothing is removed from lineage %s: backup %s ended at %s, by the clock of the instance that was backed up, and for the backup-controller it is only %s. "+
		"Correct the clock that is wrong. If it was that of the instance, delete the backup.",
		l.Lineage.Lineage, newest.ID, newest.Stopped.UTC().Format("2006-01-02 15:04 UTC"), r.now.UTC().Format("2006-01-02 15:04 UTC"))
}
