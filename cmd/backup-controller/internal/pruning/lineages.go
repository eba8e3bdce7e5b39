package pruning

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/ownership"
	"howdah.dev/howdah/pkg/backup/inventory"
)

// Lineages are all of a repository, as the last run of this process has found them; before one has ended, those in its status, which has room
// for few.
func (k *Pruner) Lineages(repo *v1alpha1.BackupRepository) []v1alpha1.LineageStatus {
	k.mu.Lock()
	known := k.known[repo.UID]
	k.mu.Unlock()
	if known == nil {
		return repo.Status.Lineages
	}
	if all := known.described.Load(); all != nil {
		return *all
	}
	return repo.Status.Lineages
}

// describe says what is in the repository.
func (r *Result) describe(repo *v1alpha1.BackupRepository, lineages []inventory.Lineage, f *facts) {
	failures := f.lastFailures()
	r.awaited = f.awaited
	r.all = make([]v1alpha1.LineageStatus, 0, len(lineages))
	for i := range lineages {
		l := &lineages[i]
		name := l.Lineage.Lineage
		r.Backups += int32(len(l.Backups) + len(l.Damaged))
		r.Stored += l.StoredBytes + l.WALBytes
		owner, _ := f.owner(l, r.Began)
		status := describeLineage(l, owner, failures[name])
		status.FirstSeen, status.GiveUp = stamp(f.seen[name]), giveUpSentence(l, owner)
		status.WrittenHere, status.ReadSince = f.written[name], stamp(r.read[name])
		status.Unreadable = cmp.Or(status.Unreadable, r.unreadable[name])
		r.all = append(r.all, status)
	}
	listed := r.listed(repo)
	for i := range r.all {
		if listed[r.all[i].Name] {
			r.Lineages = append(r.Lineages, r.all[i])
		}
	}
}

// listed are the lineages for which status has room. Some are of those that lose something, as nothing is removed from a lineage before status
// says since when it is known; those that are recorded already stay until they have lost it. The others are those that need a person most.
func (r *Result) listed(repo *v1alpha1.BackupRepository) map[string]bool {
	listed, room := map[string]bool{}, maxLineages/2
	for _, recorded := range []bool{true, false} {
		for _, name := range r.losing {
			if recordedSeen(repo, name).IsZero() != recorded && room > 0 {
				listed[name] = true
				r.Again = r.Again || !recorded
				room--
			}
		}
	}
	for _, l := range r.byNeed(repo) {
		if len(listed) < maxLineages {
			listed[l.Name] = true
		}
	}
	return listed
}

// byNeed sorts lineages by how likely a person needs to know of them. Of those that clusters write, that is the one first that was written
// longest ago, because its archiving may have stopped.
func (r *Result) byNeed(repo *v1alpha1.BackupRepository) []*v1alpha1.LineageStatus {
	sorted := make([]*v1alpha1.LineageStatus, len(r.all))
	for i := range r.all {
		sorted[i] = &r.all[i]
	}
	slices.SortStableFunc(sorted, func(a, b *v1alpha1.LineageStatus) int {
		needed := r.need(repo, a)
		if c := cmp.Compare(needed, r.need(repo, b)); c != 0 {
			return c
		}
		if needed == needTroubled || needed == needLiving {
			return written(a).Compare(written(b))
		}
		return written(b).Compare(written(a))
	})
	return sorted
}

func written(l *v1alpha1.LineageStatus) time.Time {
	if l.LastWritten == nil {
		return time.Time{}
	}
	return l.LastWritten.Time
}

// How likely a person needs to know of a lineage, the likeliest first.
const (
	needAwaited  = iota // a Restore looks for it in status, before it gives up the data on the volume
	needTroubled        // a cluster writes it, and something is wrong
	needDrilled         // drills look for it in status
	needLiving          // a cluster writes it
	needPrevious        // a cluster that is here wrote it before it was restored in place or upgraded, and may go back to it
	needDamaged
	needOther
)

// need says how likely a person needs to know of a lineage. Whoever can write to the bucket can put damaged lineages there, but none that one
// of our clusters writes.
func (r *Result) need(repo *v1alpha1.BackupRepository, l *v1alpha1.LineageStatus) int {
	damaged := l.Unreadable != "" || len(l.Damaged) > 0
	switch {
	case r.awaited[l.Name]:
		return needAwaited
	case l.Living && (damaged || l.MissingWAL != "" || l.Backups == 0 || l.LastBackup.Before(l.LastFailure)):
		return needTroubled
	case repo.Spec.Drill != nil && l.Cluster == repo.Namespace+"/"+repo.Spec.Drill.Cluster.Name:
		return needDrilled
	case l.Living:
		return needLiving
	case l.WrittenHere:
		return needPrevious
	case damaged:
		return needDamaged
	}
	return needOther
}

func describeLineage(l *inventory.Lineage, owner ownership.Owner, failed *metav1.Time) v1alpha1.LineageStatus {
	s := v1alpha1.LineageStatus{
		Name: l.Lineage.Lineage, Living: owner == ownership.Living, Backups: int32(len(l.Backups)), Damaged: l.Damaged[:min(maxDamaged, len(l.Damaged))],
		Unreadable:      l.Unreadable,
		RecoverableFrom: firstSecond(l.Window), RecoverableTo: stamp(l.Window.To), MissingWAL: l.Window.Missing,
		StoredBytes: l.StoredBytes, WALBytes: l.WALBytes, LastWritten: stamp(l.LastWritten), LastFailure: failed,
	}
	if l.Writer.Name != "" {
		s.Cluster = l.Writer.Namespace + "/" + l.Writer.Name
	}
	for i, b := range l.Backups {
		s.LogicalBytes += b.LogicalBytes
		if i == 0 {
			s.LastBackup = stamp(b.Stopped)
		}
	}
	return s
}

// lastFailures are when a Backup of each lineage failed last.
func (f *facts) lastFailures() map[string]*metav1.Time {
	last := map[string]*metav1.Time{}
	for i := range f.backups {
		status := &f.backups[i].Status
		if status.Plan == nil || status.Plan.Repository != f.repo || status.CompletedAt == nil || !meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionSucceeded) {
			continue
		}
		if former := last[status.Plan.Lineage]; former == nil || former.Before(status.CompletedAt) {
			last[status.Plan.Lineage] = status.CompletedAt
		}
	}
	return last
}
