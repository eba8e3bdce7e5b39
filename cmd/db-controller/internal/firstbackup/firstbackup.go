package firstbackup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// concerns says whether the cluster was promoted, and archives.
func concerns(o *observed.Cluster) bool {
	standby := o.Cluster.Status.Standby
	return standby != nil && standby.PromotedAt != nil && o.Cluster.Spec.Archive != nil
}

// requested is the request for a first backup; nil: there is none.
func requested(o *observed.Cluster) *v1alpha1.BackupRequest {
	if request := o.Cluster.Status.BackupRequest; request != nil && request.Purpose == v1alpha1.PurposeFirst {
		return request
	}
	return nil
}

// Request requests the backup once the cluster serves clients, and after one that failed, another. It records that there is one, so that none is
// requested after retention has deleted it.
func Request(_ context.Context, o *observed.Cluster) flow.Outcome {
	request := requested(o)
	if !concerns(o) || o.Cluster.Status.Standby.FirstBackup != nil {
		if request == nil {
			return flow.Next
		}
		o.Cluster.Status.BackupRequest = nil
		return flow.Save(v1alpha1.ReasonCompleted, "No first backup is needed any more.")
	}
	if taken := taken(o); taken != nil {
		o.Cluster.Status.Standby.FirstBackup, o.Cluster.Status.BackupRequest = taken, nil
		return flow.Save(v1alpha1.ReasonCompleted, message(taken))
	}
	attempt := 0
	switch {
	case lineage(o) == "":
		return flow.Next // it isn't known yet whether there is one
	case request != nil:
		if outcome, _ := protocol.BackupOutcomeFor(o.FirstBackup, request); outcome != protocol.BackupFailed {
			return flow.Next
		}
		next, at := finalbackup.Again(o.FirstBackup, request)
		if o.Now.Before(at) {
			return flow.Poll(min(at.Sub(o.Now), pace.QuietInterval), v1alpha1.ReasonAwaitingFirstBackup, pending(o))
		}
		attempt = next
	}
	o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: o.Cluster.Name, ClusterUID: o.Cluster.UID, Purpose: v1alpha1.PurposeFirst,
		Token: protocol.Token(o.Cluster.UID, attempt),
	}
	return flow.Save(v1alpha1.ReasonAwaitingFirstBackup, waiting)
}

const waiting = "A backup of the lineage that began with the promotion is requested. Until it is complete, nothing but the volumes has the data."

// taken is what is known of a backup of the lineage; nil: there is none. That somebody else has had one taken, or that an etcd that was restored
// to before has forgotten it, is seen in the inventory of the repository.
func taken(o *observed.Cluster) *v1alpha1.StandbyFirstBackup {
	if request := requested(o); request != nil && o.FirstBackup != nil {
		if outcome, _ := protocol.BackupOutcomeFor(o.FirstBackup, request); outcome == protocol.BackupSucceeded {
			return &v1alpha1.StandbyFirstBackup{Name: o.FirstBackup.Name, FoundAt: *observed.TimeOf(o.Now)}
		}
	}
	if o.Repository == nil || lineage(o) == "" {
		return nil
	}
	for i := range o.Repository.Status.Lineages {
		if l := &o.Repository.Status.Lineages[i]; l.Name == lineage(o) && l.Backups > 0 && l.RecoverableFrom != nil {
			return &v1alpha1.StandbyFirstBackup{FoundAt: *observed.TimeOf(o.Now)}
		}
	}
	return nil
}

// lineage that the cluster archives to, once it does; empty: that isn't known.
func lineage(o *observed.Cluster) string {
	archive := o.Cluster.Status.Archive
	if archive == nil || archive.Repository != o.Cluster.Spec.Archive.Repository.Name {
		return ""
	}
	return archive.Lineage
}

// Report shows whether the lineage has a backup.
func Report(o *observed.Cluster, conditions map[string]condition.Finding) {
	if !concerns(o) {
		meta.RemoveStatusCondition(&o.Cluster.Status.Conditions, v1alpha1.ConditionFirstBackupTaken)
		return
	}
	conditions[v1alpha1.ConditionFirstBackupTaken] = finding(o)
}

func finding(o *observed.Cluster) condition.Finding {
	if first := o.Cluster.Status.Standby.FirstBackup; first != nil {
		return condition.True(v1alpha1.ReasonCompleted, message(first))
	}
	return condition.False(v1alpha1.ReasonAwaitingFirstBackup, pending(o))
}

func message(first *v1alpha1.StandbyFirstBackup) string {
	if first.Name == "" {
		return "The repository has a backup of the lineage that began with the promotion."
	}
	return fmt.Sprintf("Backup %s of the lineage that began with the promotion is complete.", first.Name)
}

// pending says what the backup waits for.
func pending(o *observed.Cluster) string {
	request := requested(o)
	if request == nil {
		return "The lineage that began with the promotion has no backup yet. One is requested once the cluster accepts connections and archives WAL."
	}
	outcome, said := protocol.BackupOutcomeFor(o.FirstBackup, request)
	if outcome != protocol.BackupFailed {
		return fmt.Sprintf("%s Backup %s: %s", waiting, protocol.BackupName(*request), phrase.Sentence(said))
	}
	_, at := finalbackup.Again(o.FirstBackup, request)
	return fmt.Sprintf("The first backup since the promotion has failed: %s It is tried again at %s. Until one is complete, nothing but the volumes has the data.",
		phrase.Sentence(said), at.UTC().Format(time.TimeOnly+" MST"))
}
