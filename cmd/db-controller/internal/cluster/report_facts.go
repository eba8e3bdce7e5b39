package cluster

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/protocol"
)

// reportInstances publishes what is known of each instance. What only an agent knows stays as it was last said, as long
// as the pod is the same.
func reportInstances(w *world) {
	status := &w.cluster.Status
	instance := v1alpha1.InstanceStatus{Name: w.names.Instance(0), Volume: w.names.Volume(0)}
	status.Primary, status.ReadyInstances = "", 0
	if pod := w.pod(0); pod != nil {
		if known := knownInstance(status.Instances, pod); known != nil {
			instance = *known
		}
		instance.PodUID, instance.Node = pod.UID, pod.Spec.NodeName
		instance.Role = v1alpha1.InstanceRole(pod.Labels[v1alpha1.LabelRole])
		instance.Ready = w.serving(0)
		if agent := w.agent(0); agent != nil {
			reportAgent(w, agent, &instance)
		}
		if image := agentImageOf(pod); image != "" {
			status.AgentImage = image
		}
		if instance.Role == v1alpha1.RolePrimary {
			status.Primary = instance.Name
		}
	}
	if instance.Ready {
		status.ReadyInstances++
	}
	status.Instances = []v1alpha1.InstanceStatus{instance}
}

func knownInstance(instances []v1alpha1.InstanceStatus, pod *corev1.Pod) *v1alpha1.InstanceStatus {
	for i := range instances {
		if instances[i].Name == pod.Name && instances[i].PodUID == pod.UID {
			return &instances[i]
		}
	}
	return nil
}

// reportAgent takes over what an agent says of its instance, and, from the primary's, of the cluster.
func reportAgent(w *world, agent *agentapi.Status, instance *v1alpha1.InstanceStatus) {
	status := &w.cluster.Status
	if agent.Role != "" {
		instance.Role = v1alpha1.InstanceRole(agent.Role)
	}
	instance.Timeline, instance.ConfigHash = agent.Timeline, agent.ConfigHash
	instance.PendingRestart, instance.Message = agent.PendingRestart, agent.Message
	if instance.Role != v1alpha1.RolePrimary {
		return
	}
	if agent.Timeline != 0 {
		status.Timeline = agent.Timeline
	}
	if agent.SystemIdentifier != "" {
		status.SystemIdentifier = agent.SystemIdentifier
	}
	if agent.Version != "" {
		status.Version = agent.Version
	}
	status.Maintenance, status.MaintenanceMessages = agent.Maintenance, agent.MaintenanceMessages
}

func agentImageOf(pod *corev1.Pod) string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == "install-agent" {
			return pod.Spec.InitContainers[i].Image
		}
	}
	return ""
}

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
	if agent := w.agent(0); agent != nil && agent.Archive != nil {
		reportPushed(archive, agent.Archive, w.now)
	}
	status.Archive = archive
}

func reportPushed(archive *v1alpha1.ArchiveStatus, seen *agentapi.ArchiveStatus, now time.Time) {
	archive.FailingSince, archive.Waiting = nil, 0
	if !seen.FailingSince.IsZero() {
		archive.FailingSince, archive.Waiting = timeOf(seen.FailingSince), int32(min(seen.Waiting, 1<<30))
	}
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
	case w.credentialsMissing:
		return no(v1alpha1.ReasonSecretNotFound, missingCredentials(w)+".")
	case archive.FailingSince != nil:
		return no(v1alpha1.ReasonArchiveFailing, fmt.Sprintf("WAL can't be archived since %s, and waits on the volume%s",
			archive.FailingSince.UTC().Format(time.RFC3339), prefixed(": ", archiveError(w))))
	}
	if condition := meta.FindStatusCondition(w.repository.Status.Conditions, v1alpha1.ConditionReady); condition != nil &&
		condition.Status == metav1.ConditionFalse && protocol.Current(w.repository, w.repository.Status.ObservedGeneration) {
		return no(condition.Reason, fmt.Sprintf("BackupRepository %s can't be used: %s", w.repository.Name, condition.Message))
	}
	if archive.LastArchivedWAL == "" {
		return unknown(v1alpha1.ReasonStarting, "No WAL was archived yet.")
	}
	return yes(v1alpha1.ReasonArchived, fmt.Sprintf("WAL is archived in BackupRepository %s.", w.repository.Name))
}

func archiveError(w *world) string {
	if agent := w.agent(0); agent != nil && agent.Archive != nil {
		return agent.Archive.Error
	}
	return ""
}

func commaList(names []string) string { return strings.Join(names, ", ") }
