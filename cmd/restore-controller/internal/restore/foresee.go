package restore

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// foresee completes the plan with what a person wants to know before it is carried out.
func (o *observed) foresee(reach *pitr.Reach) {
	plan := o.restore.Status.Plan
	plan.WALBytes = reach.Segments() * int64(reach.Last().SegSize) // a segment has at most 1 GiB
	plan.NeedsBytes = plan.WriteBytes + spareBytes
	plan.ArchiveEnds = &v1alpha1.ReachedPoint{LSN: reach.EndLSN.String(), Timeline: int64(reach.Timeline)}
	if reach.LastCommit != nil {
		plan.ArchiveEnds.LastCommit = &metav1.MicroTime{Time: *reach.LastCommit}
	}
	if o.inPlace() {
		plan.FreeBytes, _ = freeBytes(o.cluster)
		plan.DiscardsPrevious = o.restore.Spec.Destination.InPlace.DiscardPrevious
	}
	plan.ExpectedSeconds = expected(plan, o.last)
}

// fetchBytes are those to fetch: what the backup stored, or for an incremental one at most what all packs hold that it
// points into.
func fetchBytes(header *backup.Header) int64 {
	if header.Type == backup.Full {
		return header.Totals.StoredBytes
	}
	return header.PackBytes()
}

// expected is how long it will take by the rate of the last Restore; 0: not known.
func expected(plan *v1alpha1.RestorePlan, last *v1alpha1.Restore) int64 {
	if last == nil || last.Status.Plan.WriteBytes == 0 {
		return 0
	}
	then, took := last.Status.Plan, last.Status.Reached
	perByte := float64(took.FetchSeconds) / float64(then.WriteBytes)
	perSegment := float64(took.ReplaySeconds) / float64(max(1, then.WALSegments))
	return max(1, int64(perByte*float64(plan.WriteBytes)+perSegment*float64(plan.WALSegments)))
}

// observeLast reads the last Restore of the namespace that says how long it took, while there is no plan yet.
func (r *Reconciler) observeLast(ctx context.Context, o *observed) error {
	if o.restore.Status.Plan != nil || o.ended() || o.deleting() || o.intoCluster() != nil {
		return nil
	}
	all := &v1alpha1.RestoreList{}
	if err := r.Client.List(ctx, all, client.InNamespace(o.restore.Namespace)); err != nil {
		return fmt.Errorf("list Restores: %w", err)
	}
	for i := range all.Items {
		status := &all.Items[i].Status
		measured := status.Plan != nil && status.Reached != nil && status.Reached.FetchSeconds > 0 && status.HandedOverAt != nil
		if measured && (o.last == nil || o.last.Status.HandedOverAt.Before(status.HandedOverAt)) {
			o.last = &all.Items[i]
		}
	}
	return nil
}

// planned says what would be done.
func planned(plan *v1alpha1.RestorePlan) string {
	if plan == nil {
		return ""
	}
	text := fmt.Sprintf("%s can be reached: from backup %s (%s to fetch, %s to write), then at most %d WAL segments.",
		plan.Target, plan.BackupID, bytes(plan.FetchBytes), bytes(plan.WriteBytes), plan.WALSegments)
	if ends := plan.ArchiveEnds; ends != nil {
		text += fmt.Sprintf(" The archive ends at LSN %s", ends.LSN)
		if ends.LastCommit != nil {
			text += fmt.Sprintf(", with a commit of %s", pitr.Stamp(ends.LastCommit.Time))
		}
		text += "."
	}
	text += damaged(plan) + notTaken(plan)
	if plan.DiscardsPrevious {
		text += " It discards the previous data (discardPrevious); only a restore of the safety backup can undo that."
	}
	if plan.ExpectedSeconds > 0 {
		text += fmt.Sprintf(" It takes about %ds, judging by the last restore.", plan.ExpectedSeconds)
	}
	return text + " Nothing was touched, as spec.mode is Plan."
}

// damaged says that the backup has damaged pages, where that is so.
func damaged(plan *v1alpha1.RestorePlan) string {
	if plan.DamagedPages == 0 {
		return ""
	}
	first := ""
	if len(plan.Damaged) > 0 {
		first = fmt.Sprintf(", such as block %d of %s,", plan.Damaged[0].Block, plan.Damaged[0].File)
	}
	return fmt.Sprintf(" %d pages of the backup%s failed their checksum when it was taken, and the restored database has them, too, unless replayed WAL replaces them. "+
		"Restore an older Backup without the condition PagesIntact to avoid them.", plan.DamagedPages, first)
}

// notTaken names what the new cluster doesn't get of the recorded one, and what it gets because a person accepts it, where there is
// anything.
func notTaken(plan *v1alpha1.RestorePlan) (text string) {
	var untrusted, refused []string
	for _, field := range plan.Dropped {
		if isRefused(field) {
			refused = append(refused, field)
		} else {
			untrusted = append(untrusted, field)
		}
	}
	if len(untrusted) > 0 {
		text = fmt.Sprintf(" The repository is neither encrypted nor signed, so these parts of what it records of the PostgresCluster are not used: %s. "+
			"Set again those that you need, in spec.destination.newCluster or in the new PostgresCluster.", strings.Join(untrusted, ", "))
	}
	if len(refused) > 0 {
		text += fmt.Sprintf(" These recorded parameters are not used, because no PostgresCluster may set them so: %s.", strings.Join(refused, ", "))
	}
	if len(plan.Accepted) > 0 {
		names := make([]string, 0, len(plan.Accepted))
		for _, accepted := range plan.Accepted {
			names = append(names, accepted.Field)
		}
		text += fmt.Sprintf(" These are used as the backup has recorded them, because acceptRecorded names them: %s. status.plan.accepted has the values.",
			strings.Join(names, ", "))
	}
	return text
}

// isRefused says of a field that is not taken that it wouldn't be from any repository, as dropRefused does.
func isRefused(field string) bool {
	name, isParameter := strings.CutPrefix(field, "spec.postgresql.parameters.")
	_, fixed := postgres.Fixed(name)
	return isParameter && (fixed || !postgres.RunsCode(name))
}
