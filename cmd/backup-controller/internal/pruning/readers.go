package pruning

import (
	"context"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/readnotice"
)

// awaitReaders says whether a lineage, which is locked in the bucket, is read by somebody of whom only the bucket tells. They are waited for as long
// as one may read: whoever can write to the bucket could keep everything forever otherwise.
func (r *run) awaitReaders(ctx context.Context, lineage string) (waits bool, err error) {
	found, err := readnotice.List(ctx, r.store, lineage, r.Deletions.ServerTime(r.repo, lineage))
	if err != nil {
		return false, err
	}
	if len(found) == 0 {
		return false, nil
	}
	since := recordedRead(r.repo, lineage)
	for _, at := range []time.Time{r.memory.read[lineage], r.result.read[lineage]} {
		if since.IsZero() || !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	if since.IsZero() {
		since = r.now
	}
	end := since.Add(readnotice.Longest)
	if !r.now.Before(end) {
		delete(r.result.read, lineage) // the next ones are waited for again
		return false, nil
	}
	r.result.read[lineage] = since
	r.waitFor("Nothing is removed from lineage %s now: %s. Retention waits for readers until %s at the latest.", lineage, found[0], end.UTC().Format(time.RFC3339))
	return true, nil
}

// recordedRead is since when readers keep everything in a lineage, as the status has recorded it; zero: they don't.
func recordedRead(repo *v1alpha1.BackupRepository, lineage string) time.Time {
	for _, l := range repo.Status.Lineages {
		if l.Name == lineage && l.ReadSince != nil {
			return l.ReadSince.Time
		}
	}
	return time.Time{}
}
