package disconnect

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/serverside"
)

// Steps that release a database or take it over. Each is a step of a plan.
type Steps struct{ *apply.Applier }

// Recorded says that the release of this very cluster was recorded: from then on there is no other way out.
func Recorded(o *observed.Cluster) bool { return o.Orphan != nil && o.Orphan.UID == o.Cluster.UID }

// Wanted says whether the cluster is deleted without its database. One that never served has nothing to release.
func Wanted(o *observed.Cluster) bool {
	return Recorded(o) || o.Deleting() && availability.MayHaveServed(o) && o.Cluster.Spec.DeletionPolicy.Database == v1alpha1.DatabaseOrphan
}

// Obstacle says why the database can't be released yet; empty: it can, or it is being released.
func Obstacle(o *observed.Cluster) string {
	status := o.Cluster.Status
	switch {
	case Recorded(o):
		return ""
	case !o.HasRun():
		return fmt.Sprintf("The database is released when the agent of its primary has reported the system identifier of its data. %s", unheard(o))
	case o.Operation != "":
		return fmt.Sprintf("The database is released when %s has ended, because it needs the PostgresCluster. To end it, set spec.cancel: true or spec.decision there.", o.Operation)
	case o.Undoable != "":
		return fmt.Sprintf("The database is released once %s can no longer be undone. To decide that now, set spec.decision: Confirm there.", o.Undoable)
	case len(o.Requests) > 0 || len(status.VolumeLocks) > 0:
		return "The database is released when the volume lock is released."
	case status.StorageMove != nil && status.StorageMove.Current != nil:
		return fmt.Sprintf("The database is released when %s has its new volume.", status.StorageMove.Current.Instance)
	case o.StatefulSet() == nil:
		return fmt.Sprintf("The database is released when StatefulSet %s was created again.", o.Names.StatefulSet())
	}
	return ""
}

// unheard says why no agent has said so yet.
func unheard(o *observed.Cluster) string {
	if pod := o.Unheard(observed.PodReady); pod != "" {
		return fmt.Sprintf("The agent of pod %s doesn't respond: check that NetworkPolicies let the db-controller connect to it.", pod)
	}
	_, message := availability.NotServing(o)
	return message
}

// AwaitIdle waits until nothing needs the PostgresCluster any more.
func AwaitIdle(_ context.Context, o *observed.Cluster) flow.Outcome {
	if why := Obstacle(o); why != "" {
		return flow.Poll(pace.UnknownInterval, v1alpha1.ReasonAwaitingRelease, why)
	}
	return flow.Next
}

// Record writes down what is released, before anything is. From then on the cluster is deleted this way, whatever becomes of its spec.
func (s *Steps) Record(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if Recorded(o) {
		return flow.Next
	}
	if o.OrphanMap != nil && o.OrphanMap.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		return flow.Stop(v1alpha1.ReasonNameConflict, fmt.Sprintf("ConfigMap %s already exists and belongs to somebody else, so what is released can't be recorded there. Delete it.", o.OrphanMap.Name))
	}
	record := orphan.RecordOf(o.Cluster, own(o), metav1.NewTime(o.Now))
	configMap, err := orphan.Map(o.Cluster, record)
	if err != nil {
		return flow.Retry(err)
	}
	wanted, err := serverside.Fields(s.Client.Scheme(), configMap)
	if err != nil {
		return flow.Retry(err)
	}
	err = s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(apply.FieldManager), client.ForceOwnership)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return flow.Next // everything goes with the namespace, and nobody will ever look for the record
	case err != nil:
		return flow.Retry(fmt.Errorf("record the release in ConfigMap %s: %w", configMap.Name, err))
	}
	log.FromContext(ctx).Info("Recorded the release of the database", "name", configMap.Name, "objects", len(record.Objects))
	o.Orphan = record
	return flow.Next
}

// own are the parts that the cluster controls, and those that have lost their owner although they carry its labels: Kubernetes takes it from
// all of them if a person deletes the cluster with --cascade=orphan.
func own(o *observed.Cluster) []*metav1.PartialObjectMetadata {
	return slices.DeleteFunc(slices.Clone(o.Parts), func(part *metav1.PartialObjectMetadata) bool {
		lost := len(part.OwnerReferences) == 0 && labelled(o, part)
		return !part.DeletionTimestamp.IsZero() || observed.Foreign(part, o.Cluster) && !lost
	})
}

// labelled says that an object was created as one of a cluster of this name.
func labelled(o *observed.Cluster, part *metav1.PartialObjectMetadata) bool {
	return part.Labels[v1alpha1.LabelCluster] == o.Cluster.Name && part.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// Release takes the owner from everything that Kubernetes would delete with the cluster. It is over once the API server says that nothing
// names the cluster any more.
func (s *Steps) Release(ctx context.Context, o *observed.Cluster) flow.Outcome {
	released := 0
	for _, part := range o.Parts {
		free := part.DeepCopy()
		free.OwnerReferences = slices.DeleteFunc(free.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == o.Cluster.UID })
		if len(free.OwnerReferences) == len(part.OwnerReferences) {
			continue
		}
		if err := s.patch(ctx, part, free); err != nil {
			return flow.Retry(err)
		}
		released++
	}
	if released > 0 {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonAwaitingRelease, "The database is being released.")
	}
	log.FromContext(ctx).Info("Released the database")
	return flow.Next
}

// patch the owners of an object, if it is still as it was read.
func (s *Steps) patch(ctx context.Context, from, to *metav1.PartialObjectMetadata) error {
	patch := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Patch(ctx, to, patch, client.FieldOwner(apply.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the owner of %s %s: %w", from.Kind, from.Name, err)
	}
	return nil
}
