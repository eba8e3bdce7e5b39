package cluster

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// archiveInterval is how often the position of the archive is published at most: it changes with every segment, and
// who wants to know it by the second reads the metrics.
const archiveInterval = time.Minute

func reportArchive(w *world) {
	status := &w.cluster.Status
	if w.cluster.Spec.Archive == nil {
		status.Archive = nil
		return
	}
	archive := &v1alpha1.ArchiveStatus{}
	lineage := protocol.Lineage(status.SystemIdentifier, status.DataGeneration)
	if status.Archive != nil && status.Archive.Lineage == lineage {
		*archive = *status.Archive
	}
	archive.Repository, archive.Lineage = w.cluster.Spec.Archive.Repository.Name, lineage
	if agent := w.primaryAgent(); agent != nil && agent.Archive != nil {
		reportBehind(archive, agent, w.now)
		reportPushed(archive, agent.Archive, w.now)
	}
	status.Archive = archive
}

func reportPushed(archive *v1alpha1.ArchiveStatus, seen *agentapi.ArchiveStatus, now time.Time) {
	if seen.LastWAL == "" || seen.LastWAL == archive.LastArchivedWAL {
		return
	}
	published := archive.LastArchivedTime
	if published == nil || seen.LastTime.Sub(published.Time) >= archiveInterval || now.Sub(seen.LastTime) >= archiveInterval {
		archive.LastArchivedWAL, archive.LastArchivedTime = seen.LastWAL, timeOf(seen.LastTime)
	}
}

// timeOf has seconds only, as what comes back from the API server.
func timeOf(t time.Time) *metav1.Time {
	rounded := metav1.NewTime(t.Truncate(time.Second))
	return &rounded
}

// archiving says whether WAL reaches the repository.
func archiving(w *world) finding {
	archive := w.cluster.Status.Archive
	switch {
	case w.cluster.Spec.Archive == nil:
		return no(v1alpha1.ReasonNotConfigured, "WAL is not archived, and there can be no backups: set spec.archive.repository.name to a BackupRepository.")
	case w.repository == nil:
		return no(v1alpha1.ReasonRepositoryNotFound, missingRepository(w.cluster)+".")
	case w.repository.Spec.ReadOnly:
		return no(v1alpha1.ReasonReadOnly, readOnlyRepository(w.cluster)+".")
	case w.missingSecret != "":
		return no(v1alpha1.ReasonSecretNotFound, missingCredentials(w)+".")
	case archive.FailingSince != nil:
		return no(v1alpha1.ReasonArchiveFailing, fmt.Sprintf("WAL can't be archived since %s, and waits on the volume%s.%s",
			archive.FailingSince.UTC().Format(time.RFC3339), prefixed(": ", strings.TrimSuffix(archiveError(w), ".")), outlook(archive)))
	}
	if condition := meta.FindStatusCondition(w.repository.Status.Conditions, v1alpha1.ConditionReady); condition != nil &&
		condition.Status == metav1.ConditionFalse && protocol.Current(w.repository, w.repository.Status.ObservedGeneration) {
		return no(condition.Reason, fmt.Sprintf("BackupRepository %s can't be used: %s", w.repository.Name, condition.Message))
	}
	if behind(archive, w.now) {
		return no(v1alpha1.ReasonArchiveBehind, behindMessage(archive))
	}
	if archive.LastArchivedWAL == "" {
		return unknown(v1alpha1.ReasonStarting, "No WAL was archived yet.")
	}
	return yes(v1alpha1.ReasonArchived, fmt.Sprintf("WAL is archived in BackupRepository %s.", w.repository.Name))
}

func archiveError(w *world) string {
	if agent := w.primaryAgent(); agent != nil && agent.Archive != nil {
		return agent.Archive.Error
	}
	return ""
}
