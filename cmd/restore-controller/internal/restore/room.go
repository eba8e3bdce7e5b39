package restore

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/volumelock"
)

// hasRoom refuses a volume that is too small: for the restored data beside the previous data, or, where that becomes the
// restored data, for the larger of the two.
func hasRoom(o *observed, needed int64) flow.Outcome {
	name := o.cluster.Name
	free, known := freeBytes(o.cluster)
	switch {
	case !known || free >= needed:
		return flow.Next
	case !o.restore.Spec.Destination.InPlace.DiscardPrevious:
		return flow.Stop(v1alpha1.ReasonNoSpace, fmt.Sprintf(
			"The previous data stays until the restore is confirmed, so %s is needed in addition, and the volume of %s has %s free. "+
				"Raise spec.storage.size of PostgresCluster %s, and create another Restore. To give the previous data up instead, write "+
				"discardPrevious: true and safetyBackup: true in its spec.destination.inPlace.",
			bytes(needed), o.cluster.Status.Primary, bytes(free), name))
	}
	if capacity := storageOf(o.cluster).Capacity.Value(); capacity < needed {
		return flow.Stop(v1alpha1.ReasonNoSpace, fmt.Sprintf(
			"%s is needed, and the volume of %s has %s in all. Raise spec.storage.size of PostgresCluster %s, and create another Restore.",
			bytes(needed), o.cluster.Status.Primary, bytes(capacity), name))
	}
	return flow.Next
}

// discarding says that the previous data is being given up, or is already, so that nothing leads back to it.
func (o *observed) discarding() bool {
	status := o.restore.Status
	return status.Plan != nil && status.Plan.DiscardsPrevious && status.Previous != nil
}

// previousArchive is where the previous data was archived to, if that is the repository that the Job works with; else nil.
func (o *observed) previousArchive() *agentapi.PreviousArchive {
	archive := o.cluster.Spec.Archive
	if archive == nil || archive.Repository.Name != o.restore.Status.Plan.Repository {
		return nil
	}
	previous := &agentapi.PreviousArchive{ClusterUID: string(o.cluster.Identity())}
	if o.safety != nil && o.safety.Status.Plan != nil {
		previous.SafetyBackup = o.safety.Status.Plan.ID
	}
	return previous
}

// uncleanFailure refuses to discard data whose server was not shut down cleanly: what its WAL ends with is not known. The Job looks once more,
// at the data itself.
func (o *observed) uncleanFailure() *v1alpha1.Failure {
	response := o.lock().Response()
	if !o.discarding() || o.job.Exists || o.restore.Status.Handover != nil || response == nil || response.Shutdown != v1alpha1.ShutdownUnclean {
		return nil
	}
	return volumelock.Fail(v1alpha1.ReasonUncleanShutdown,
		"PostgreSQL was not shut down cleanly, so the end of its WAL isn't known, and the previous data is not discarded. Create another Restore once the cluster is Ready again.")
}

// keptPrevious reports that the Restore failed before it discarded anything.
func keptPrevious(failure *v1alpha1.Failure) bool {
	return failure.Reason == v1alpha1.ReasonPreviousDataNotArchived || failure.Reason == v1alpha1.ReasonUncleanShutdown
}

// discarded says where the previous data still is.
func discarded(o *observed) string {
	status := o.restore.Status
	return fmt.Sprintf("The previous data may be lost from the volume of %s. If PostgresCluster %s does not become Ready, restore Backup %s in place.",
		status.Previous.Instance, status.Cluster.Name, status.SafetyBackup)
}

// bytes are a number of them for a person: whole MiB, where there is one.
func bytes(n int64) string {
	if n >= 1<<20 {
		n = n >> 20 << 20
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// freeBytes of the volume that takes the restored data, as far as the db-controller says. The Job looks itself, before it
// writes anything.
func freeBytes(cluster *v1alpha1.PostgresCluster) (int64, bool) {
	return volumelock.Free(storageOf(cluster))
}

// storageOf the primary, where it is known.
func storageOf(cluster *v1alpha1.PostgresCluster) *v1alpha1.InstanceStorage {
	for _, instance := range cluster.Status.Instances {
		if s := instance.Storage; instance.Name == cluster.Status.Primary && s != nil && s.Capacity != nil && s.Used != nil {
			return s
		}
	}
	return nil
}
