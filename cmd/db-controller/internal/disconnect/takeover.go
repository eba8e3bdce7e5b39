package disconnect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/flow"
)

// TakingOver says that a database which was released waits for this cluster, or that it is only partly its own yet.
func TakingOver(o *observed.Cluster) bool {
	return o.Orphan != nil && o.Orphan.UID != o.Cluster.UID && (!o.Begun() || o.Cluster.Status.Identity == o.Orphan.Identity)
}

// TakeOver makes a released database that of this cluster. No pod is touched.
func (s *Steps) TakeOver(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.OrphanDamage != "" && !o.Begun() {
		return refused(v1alpha1.ReasonTakeoverRefused, fmt.Sprintf("ConfigMap %s should describe a database that was released under this name, but %s. "+
			"Restore the ConfigMap as it was, or create the cluster under another name.", o.Names.Released(), o.OrphanDamage))
	}
	if !TakingOver(o) {
		return flow.Next
	}
	if reason, why := objection(o); why != "" {
		return refused(reason, why)
	}
	if !o.Begun() {
		return pin(o)
	}
	return s.own(ctx, o)
}

func refused(reason, message string) flow.Outcome {
	outcome := flow.Stop(reason, message)
	outcome.After = pace.UnknownInterval // not all of what stands in the way is watched
	return outcome
}

// pin records which database this is, before anything of it is touched.
func pin(o *observed.Cluster) flow.Outcome {
	status := &o.Cluster.Status
	conditions, generation := status.Conditions, status.ObservedGeneration
	*status = orphan.Carried(o.Orphan.Status)
	status.Conditions, status.ObservedGeneration = conditions, generation
	status.Identity = o.Orphan.Identity
	return flow.Save(v1alpha1.ReasonTakingOver, fmt.Sprintf("The database that was released on %s is being taken over.", o.Orphan.ReleasedAt.UTC().Format("2006-01-02 15:04:05 MST")))
}

// own gives everything its owner, waits until that is seen everywhere, and removes the record.
func (s *Steps) own(ctx context.Context, o *observed.Cluster) flow.Outcome {
	const message = "The database is being taken over; its pods keep running."
	taken := 0
	for _, part := range o.Parts {
		if !o.Orphan.Lists(part) || metav1.IsControlledBy(part, o.Cluster) {
			continue
		}
		owned := part.DeepCopy()
		owned.OwnerReferences = append(owned.OwnerReferences, *metav1.NewControllerRef(o.Cluster, v1alpha1.GroupVersion.WithKind(v1alpha1.KindPostgresCluster)))
		if err := s.patch(ctx, part, owned); err != nil {
			return flow.Retry(err)
		}
		if part.Kind == "Secret" {
			s.Secrets.Drop(o.Cluster, part.Name)
		}
		taken++
	}
	if taken > 0 || unseen(o) {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonTakingOver, message)
	}
	if err := s.Remove(ctx, o.OrphanMap); err != nil {
		return flow.Retry(err)
	}
	log.FromContext(ctx).Info("Took a released database over", "identity", o.Orphan.Identity, "releasedBy", o.Orphan.UID)
	return flow.Next
}

// unseen: the cache doesn't show yet that all of it has an owner again.
func unseen(o *observed.Cluster) bool {
	for _, part := range o.Parts {
		live := o.Live[observed.Key(part.Kind, part.Name)]
		if live != nil && o.Orphan.Lists(part) && observed.Foreign(live, o.Cluster) {
			return true
		}
	}
	return false
}

// objection says why the database is not taken over; empty: it is.
func objection(o *observed.Cluster) (reason, message string) {
	for _, part := range o.Parts {
		if why := foreign(o, part); why != "" {
			return v1alpha1.ReasonNameConflict, why
		}
	}
	for _, look := range []func(*observed.Cluster) string{otherSpec, otherData} {
		if why := look(o); why != "" {
			return v1alpha1.ReasonTakeoverRefused, why
		}
	}
	return "", ""
}

// foreign: an object that has the name of one of the database's, but is another one or has another owner. The holder of the Lease creates one
// that was deleted, so it is known by the data that it speaks of.
func foreign(o *observed.Cluster, part *metav1.PartialObjectMetadata) string {
	if metav1.IsControlledBy(part, o.Cluster) {
		return ""
	}
	owner, released := metav1.GetControllerOf(part), o.Orphan.UIDOf(part.Kind, part.Name)
	if owner == nil && labelled(o, part) && (released == part.UID || part.Kind == "Lease" && released != "" && lease.Speaks(part.Annotations, o.Orphan.Status.DataGeneration)) {
		return ""
	}
	if released == "" && !slices.Contains(o.Names.Secrets(), part.Name) && part.Kind == "Secret" {
		return "" // a person's, with the password of a role
	}
	return fmt.Sprintf("%s %s exists, but is not the one that was released with the database on %s, so it is not touched. "+
		"Delete it, or create the cluster under another name.", part.Kind, part.Name, o.Orphan.ReleasedAt.UTC().Format("2006-01-02 15:04:05 MST"))
}

// otherSpec: what can't be changed of a cluster is not as it was.
func otherSpec(o *observed.Cluster) string {
	was, is := &o.Orphan.Spec, &o.Cluster.Spec
	differs := map[string]bool{
		"spec.bootstrap":                !equality.Semantic.DeepEqual(was.Bootstrap, is.Bootstrap),
		"spec.runAs":                    !equality.Semantic.DeepEqual(was.RunAs, is.RunAs),
		"spec.storage.storageClassName": !equality.Semantic.DeepEqual(was.Storage.StorageClassName, is.Storage.StorageClassName),
		"spec.storage.size":             is.Storage.Size.Cmp(was.Storage.Size) < 0,
		"spec.storage.wal":              otherWAL(was.Storage.WAL, is.Storage.WAL),
	}
	for _, field := range slices.Sorted(maps.Keys(differs)) {
		if !differs[field] {
			continue
		}
		recorded, err := json.Marshal(map[string]any{
			"spec.bootstrap": was.Bootstrap, "spec.runAs": was.RunAs, "spec.storage.storageClassName": was.Storage.StorageClassName, "spec.storage.size": was.Storage.Size, "spec.storage.wal": was.Storage.WAL,
		}[field])
		if err != nil {
			recorded = []byte("as it was")
		}
		return fmt.Sprintf("The database that was released under this name is not taken over, because its %s can't be changed. It was %s; null means that it was not set. "+
			"Create the PostgresCluster again with that.", field, recorded)
	}
	return ""
}

// otherWAL: what can't be changed of WAL volumes is not as it was.
func otherWAL(was, is *v1alpha1.WALStorage) bool {
	if was == nil || is == nil {
		return was != is
	}
	return !equality.Semantic.DeepEqual(was.StorageClassName, is.StorageClassName) || is.Size.Cmp(was.Size) < 0
}

// otherData: the record speaks of other data than the agents were told of last, or have found.
func otherData(o *observed.Cluster) string {
	const advice = "Restore the ConfigMap as it was, or create the cluster under another name."
	status, told := o.Orphan.Status, o.LastConfig()
	if told.ClusterUID != string(o.Orphan.Identity) || told.DataGeneration != status.DataGeneration || told.Adoptions != status.Adoptions {
		return fmt.Sprintf("ConfigMap %s describes a released database with the identity %s on data generation %s (adoption %d), but ConfigMap %s tells its instances of identity %q, data generation %q (adoption %d). %s",
			o.Names.Released(), o.Orphan.Identity, status.DataGeneration, status.Adoptions, o.Names.Config(), told.ClusterUID, told.DataGeneration, told.Adoptions, advice)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		if agent := o.Agents[name]; agent != nil && agent.SystemIdentifier != "" && agent.SystemIdentifier != status.SystemIdentifier {
			return fmt.Sprintf("ConfigMap %s describes a released database with the system identifier %s, but instance %s has %s. %s",
				o.Names.Released(), status.SystemIdentifier, name, agent.SystemIdentifier, advice)
		}
	}
	for ordinal := range o.Wanted() {
		for _, claim := range observed.ClaimsOf(o, ordinal) {
			if claim.Labels[component.LabelClusterUID] != string(o.Orphan.Identity) {
				return fmt.Sprintf("PersistentVolumeClaim %s does not belong to the database that was released under this name, so it is not touched. Delete it, or create the cluster under another name.", claim.Name)
			}
		}
	}
	return ""
}
