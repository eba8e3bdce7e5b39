package finalbackup

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// Wanted says whether deletionPolicy wants one; left out, it does where there is an archive.
func Wanted(cluster *v1alpha1.PostgresCluster) bool {
	return ptr.Deref(cluster.Spec.DeletionPolicy.FinalBackup, cluster.Spec.Archive != nil)
}

// Due says whether one is due before anything goes. What never served has nothing to back up, and once the volume goes there is nothing left
// to read. One that somebody has deleted is there for as long as its pod runs.
func Due(o *observed.Cluster) bool {
	if !Wanted(o.Cluster) || !availability.MayHaveServed(o) || observed.MissingClaim(o, o.DataInstance()) != "" {
		return false
	}
	for _, claim := range observed.ClaimsOf(o, o.DataInstance()) {
		if !claim.DeletionTimestamp.IsZero() && o.Stopped() {
			return false
		}
	}
	return !Taken(o) || unarchived(o) != ""
}

// unarchived says that the archive lacks what was written since the final backup, and why, as far as the agent of the primary says so; empty: it
// lacks nothing. The cluster serves clients until it is stopped, and may have done so for long if no db-controller ran. Volumes that stay have it.
func unarchived(o *observed.Cluster) string {
	agent := o.PrimaryAgent()
	if o.IdleSet() || o.Cluster.Spec.DeletionPolicy.Volumes == v1alpha1.VolumesRetain || agent == nil || agent.Archive == nil || agent.Archive.FailingSince.IsZero() {
		return ""
	}
	return fmt.Sprintf("WAL has not been archived since %s: %s", agent.Archive.FailingSince.UTC().Format(time.RFC3339), phrase.Sentence(agent.Archive.Error))
}

// Unproven says why the archive may lack what was written until the cluster was stopped; empty: it lacks nothing, as the last primary said when it
// ended. One that was killed has said nothing.
func Unproven(o *observed.Cluster) string {
	if unknown := observed.LastUnknown(o); unknown != "" {
		return unknown
	}
	last := o.Names.Instance(o.LastPrimary())
	switch ended := availability.Ended(o); {
	case ended == nil:
		return fmt.Sprintf("%s, the last primary, did not report at its shutdown that all its WAL is archived.", last)
	case len(ended.Unarchived) > 0:
		return fmt.Sprintf("When %s ended, WAL was not archived, beginning with %s: %s", last, observed.Bounded(ended.Unarchived[0], 64), phrase.Sentence(observed.Bounded(ended.Error, 512)))
	}
	return ""
}

// Taken says whether the final backup of the cluster has succeeded, and stays.
func Taken(o *observed.Cluster) bool {
	if o.FinalBackup == nil || !o.FinalBackup.DeletionTimestamp.IsZero() {
		return false
	}
	outcome, _ := protocol.BackupOutcomeFor(o.FinalBackup, o.Cluster.Status.BackupRequest)
	return outcome == protocol.BackupSucceeded
}

// Request asks for the last backup; after one that failed, for another.
func Request(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !Due(o) {
		return flow.Next
	}
	wanted := o.Cluster.Status.BackupRequest
	if wanted != nil && wanted.Purpose == v1alpha1.PurposeFirst {
		wanted = nil // see firstbackup: it says nothing of the last one
	}
	attempt := 0
	if wanted != nil {
		outcome, message := protocol.BackupOutcomeFor(o.FinalBackup, wanted)
		if outcome != protocol.BackupFailed {
			return flow.Next
		}
		var again time.Time
		if attempt, again = Again(o.FinalBackup, wanted); o.Now.Before(again) {
			return flow.Poll(again.Sub(o.Now), v1alpha1.ReasonAwaitingFinalBackup, fmt.Sprintf(
				"The final backup has failed: %s It is tried again at %s. %s", phrase.Sentence(message), again.UTC().Format(time.TimeOnly+" MST"), withoutBackup))
		}
	}
	o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: o.Cluster.Name, ClusterUID: o.Cluster.UID, Purpose: v1alpha1.PurposeFinal,
		Token: protocol.Token(o.Cluster.UID, attempt),
	}
	return flow.Save(v1alpha1.ReasonAwaitingFinalBackup, "The deletion waits for the final backup. "+withoutBackup)
}

const withoutBackup = "To delete the cluster without one, set spec.deletionPolicy.finalBackup: false."

// Await waits until the final backup has succeeded.
func Await(_ context.Context, o *observed.Cluster) flow.Outcome {
	if !Due(o) {
		return flow.Next
	}
	if why := unarchived(o); why != "" && Taken(o) {
		return flow.Poll(pace.QuietInterval, v1alpha1.ReasonAwaitingFinalBackup, fmt.Sprintf(
			"The final backup has succeeded, and the deletion waits until what was written since is archived. %s %s", why, withoutBackup))
	}
	_, message := protocol.BackupOutcomeFor(o.FinalBackup, o.Cluster.Status.BackupRequest)
	if endangered := availability.Endangered(o); endangered != "" {
		message = strings.TrimSpace(phrase.Sentence(message) + " " + endangered)
	}
	return flow.Poll(pace.QuietInterval, v1alpha1.ReasonAwaitingFinalBackup, fmt.Sprintf(
		"The deletion waits for Backup %s: %s %s", protocol.BackupName(*o.Cluster.Status.BackupRequest), phrase.Sentence(message), withoutBackup))
}

// Again is the number of the attempt after a backup that has failed, and when it is made.
func Again(failed *v1alpha1.Backup, request *v1alpha1.BackupRequest) (attempt int, at time.Time) {
	attempt = attemptOf(request.Token) + 1
	return attempt, endOf(failed).Add(pauseBefore(attempt))
}

// attemptOf is the number at the end of a token.
func attemptOf(token string) int {
	attempt, err := strconv.Atoi(token[strings.LastIndex(token, ".")+1:])
	if err != nil {
		return 0
	}
	return attempt
}

// pauseBefore an attempt: a minute before the second, then twice as long each time, an hour at most.
func pauseBefore(attempt int) time.Duration {
	return min(time.Minute<<min(attempt-1, 10), time.Hour)
}

func endOf(backup *v1alpha1.Backup) time.Time {
	if backup.Status.CompletedAt != nil {
		return backup.Status.CompletedAt.Time
	}
	return backup.CreationTimestamp.Time
}
