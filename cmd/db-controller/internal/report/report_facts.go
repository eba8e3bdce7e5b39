package report

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// archiveInterval is how often the position of the archive is published at most: it changes with every segment, and
// who wants to know it by the second reads the metrics.
const archiveInterval = time.Minute

func reportArchive(o *observed.Cluster) {
	status := &o.Cluster.Status
	if o.Cluster.Spec.Archive == nil {
		status.Archive = nil
		return
	}
	archive := &v1alpha1.ArchiveStatus{}
	lineage := protocol.Lineage(status.SystemIdentifier, status.DataGeneration)
	if status.Archive != nil && status.Archive.Lineage == lineage {
		*archive = *status.Archive
	}
	archive.Repository, archive.Lineage = o.Cluster.Spec.Archive.Repository.Name, lineage
	if agent := o.PrimaryAgent(); agent != nil && agent.Archive != nil {
		reportBehind(archive, agent, o.Now)
		reportPushed(archive, agent.Archive, o.Now)
	}
	status.Archive = archive
}

func reportPushed(archive *v1alpha1.ArchiveStatus, seen *agentapi.ArchiveStatus, now time.Time) {
	if seen.LastWAL == "" || seen.LastWAL == archive.LastArchivedWAL {
		return
	}
	published := archive.LastArchivedTime
	if published == nil || seen.LastTime.Sub(published.Time) >= archiveInterval || now.Sub(seen.LastTime) >= archiveInterval {
		archive.LastArchivedWAL, archive.LastArchivedTime = seen.LastWAL, observed.TimeOf(seen.LastTime)
	}
}

// archiving says whether WAL reaches the repository.
func archiving(o *observed.Cluster) condition.Finding {
	archive := o.Cluster.Status.Archive
	switch {
	case o.Cluster.Spec.Archive == nil:
		return condition.False(v1alpha1.ReasonNotConfigured, "WAL is not archived, so no backup is possible: set spec.archive.repository.name to a BackupRepository.")
	case o.Repository == nil:
		return condition.False(v1alpha1.ReasonRepositoryNotFound, MissingRepository(o.Cluster))
	case o.Repository.Spec.ReadOnly:
		return condition.False(v1alpha1.ReasonReadOnly, ReadOnlyRepository(o.Cluster))
	case o.MissingSecret != "":
		return condition.False(v1alpha1.ReasonSecretNotFound, MissingCredentials(o))
	case archive.FailingSince != nil:
		return condition.False(v1alpha1.ReasonArchiveFailing, fmt.Sprintf("WAL has not been archived since %s and waits on the volume%s.%s",
			archive.FailingSince.UTC().Format(time.RFC3339), phrase.Prefixed(": ", strings.TrimSuffix(archiveError(o), ".")), outlook(archive)))
	}
	if ready := meta.FindStatusCondition(o.Repository.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
		ready.Status == metav1.ConditionFalse && protocol.Current(o.Repository, o.Repository.Status.ObservedGeneration) {
		return condition.False(ready.Reason, fmt.Sprintf("BackupRepository %s can't be used: %s", o.Repository.Name, phrase.Sentence(ready.Message)))
	}
	if behind(archive, o.Now) {
		return condition.False(v1alpha1.ReasonArchiveBehind, behindMessage(archive))
	}
	if archive.LastArchivedWAL == "" {
		return condition.Unknown(v1alpha1.ReasonStarting, "No WAL has been archived yet.")
	}
	if damaged := damagedMessage(archive, o.Now); damaged != "" {
		return condition.True(v1alpha1.ReasonDamagedWAL, damaged)
	}
	return condition.True(v1alpha1.ReasonArchived, fmt.Sprintf("WAL is archived in BackupRepository %s.", o.Repository.Name))
}

func archiveError(o *observed.Cluster) string {
	if agent := o.PrimaryAgent(); agent != nil && agent.Archive != nil {
		return agent.Archive.Error
	}
	return ""
}
