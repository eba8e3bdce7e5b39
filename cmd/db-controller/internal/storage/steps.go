package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// EnsureVolumes creates the claims ahead of the StatefulSet, and takes back those that were left behind when their instance
// was removed. One that is there is never changed otherwise. One that Kubernetes refuses, for a quota, say, stands in nobody's way but its
// own instance's, unless it is the first. What the agents say of the data on the claims is noted first, for as long as there is somebody to say so.
func (s *Steps) EnsureVolumes(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if err := s.noteWord(ctx, o); err != nil {
		return flow.Retry(err)
	}
	if o.Deleting() {
		return flow.Next
	}
	wanted := o.Wanted()
	if o.AwaitsInit() {
		wanted = 1 // of a claim that no pod mounts Kubernetes says time and again that it waits for one
	}
	for ordinal := range wanted {
		for _, wanted := range volume.Claims(o.Cluster, ordinal) {
			err := s.ensureVolume(ctx, o, wanted)
			if apierrors.IsForbidden(err) && !o.AwaitsInit() {
				o.Refused[wanted.Name] = err.Error()
				continue
			}
			if err != nil {
				return flow.Retry(err)
			}
		}
	}
	return flow.Next
}

func (s *Steps) ensureVolume(ctx context.Context, o *observed.Cluster, wanted *corev1.PersistentVolumeClaim) error {
	key := observed.Key("PersistentVolumeClaim", wanted.Name)
	claim, _ := o.Live[key].(*corev1.PersistentVolumeClaim)
	switch {
	case claim != nil && volume.IsRetained(claim):
		reclaimed := volume.Reclaimed(claim, o.Cluster)
		if err := s.Client.Patch(ctx, reclaimed, client.MergeFrom(claim), client.FieldOwner(apply.FieldManager)); err != nil {
			return fmt.Errorf("take back PersistentVolumeClaim %s: %w", claim.Name, err)
		}
		log.FromContext(ctx).Info("Took volume back", "name", claim.Name)
	case claim == nil:
		claim = wanted
		err := o.Own.Taken(s.Client.Create(ctx, claim, client.FieldOwner(apply.FieldManager)))
		if client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create PersistentVolumeClaim %s: %w", claim.Name, err)
		}
		o.Own.Remember(key, claim)
		o.Live[key] = claim // the same pass may grant them all
		log.FromContext(ctx).Info("Wrote object", "kind", "PersistentVolumeClaim", "name", claim.Name, "new", true)
	}
	return nil
}

// ReleaseVolumes deletes the volumes, or leaves them behind with a label that says whose they were.
func (s *Steps) ReleaseVolumes(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for _, claim := range observed.ExistingVolumes(o) {
		if !volume.Belongs(claim, o.Cluster) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if err := s.releaseVolume(ctx, o, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (s *Steps) releaseVolume(ctx context.Context, o *observed.Cluster, claim *corev1.PersistentVolumeClaim) error {
	why := whyKept(o, protocol.InstanceOf(claim.Name))
	switch {
	case why == nil:
		return s.RemoveUnchanged(ctx, claim)
	case claim.Labels[v1alpha1.LabelCluster] == "":
		return nil
	}
	err := s.Client.Patch(ctx, volume.Retained(claim, *why, recordOf(o)), client.MergeFrom(claim), client.FieldOwner(apply.FieldManager))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("leave PersistentVolumeClaim %s behind: %w", claim.Name, err)
	}
	log.FromContext(ctx).Info("Left volume behind", "name", claim.Name, "reason", why.Reason, "message", why.Message)
	s.announce(o, claim, why)
	return nil
}

// recordOf a cluster that is deleted, for a PostgresCluster that begins with its volumes; nil: it continues, has no data, or nobody knows who was
// primary last, so that a person has to name it. It is the same in every pass, as nobody writes the Lease any more.
func recordOf(o *observed.Cluster) *volume.Record {
	if !o.Deleting() || !o.HasRun() || observed.LastUnknown(o) != "" {
		return nil
	}
	status := o.Cluster.Status
	record := &volume.Record{
		DeletedAt: *o.Cluster.DeletionTimestamp, Primary: o.Names.Instance(o.LastPrimary()), Position: lease.Reached(o.Lease, status.DataGeneration),
		DataGeneration: status.DataGeneration, Adoptions: status.Adoptions, SystemIdentifier: status.SystemIdentifier,
	}
	record.Database, record.Owner = secret.Application(o.Cluster)
	return record
}

// GrowVolumes requests larger volumes. It is done whatever state the database is in: a full volume may be why it is down.
// What is refused for one claim stands in nobody's way.
func (s *Steps) GrowVolumes(ctx context.Context, o *observed.Cluster) flow.Outcome {
	for _, claim := range observed.CurrentVolumes(o) {
		if !TooSmall(o, claim) || claim.Status.Phase != corev1.ClaimBound || barrier(o, claim) != "" {
			continue
		}
		if err := s.growVolume(ctx, o, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (s *Steps) growVolume(ctx context.Context, o *observed.Cluster, claim *corev1.PersistentVolumeClaim) error {
	size, requested := volume.SizeOf(o.Cluster, claim), volume.Requested(claim)
	err := s.Client.Patch(ctx, volume.Enlarged(claim, size), client.MergeFrom(claim), client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		o.Refused[claim.Name] = err.Error()
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("enlarge PersistentVolumeClaim %s: %w", claim.Name, err)
	case err == nil:
		log.FromContext(ctx).Info("Requested a larger volume", "name", claim.Name, "from", requested.String(), "to", size.String())
	}
	return nil
}

// ReleaseRemoved deals with the volumes of instances that were removed, as deletionPolicy says. What is wanted and what runs was read from the API
// server itself after the claims, and a claim is deleted only as it was seen. An instance that is added again writes to its claim first, so one that
// is in use again by then is not deleted.
func (s *Steps) ReleaseRemoved(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !o.Fresh {
		return flow.Next
	}
	for _, claim := range removable(o) {
		if err := s.releaseVolume(ctx, o, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// removable are the claims of instances that were removed, once the primary serves among those that stay: until then what was
// removed may be all that there is. While the Lease names an instance, its volume may have the only other copy of a commit that
// was acknowledged, and nothing else has previous data that a person may want back. One with data that a clone has replaced, or that was not repaired, is left behind.
func removable(o *observed.Cluster) (claims []*corev1.PersistentVolumeClaim) {
	if !scaling.PrimaryStays(o) || o.Reach() > o.Wanted() {
		return nil
	}
	for _, claim := range observed.ExistingVolumes(o) {
		instance := protocol.InstanceOf(claim.Name)
		removed := o.Names.Ordinal(instance) >= o.Wanted()
		if removed && volume.Belongs(claim, o.Cluster) && claim.DeletionTimestamp.IsZero() && !scaling.MayTakeOver(o, instance) && o.PreviousOn[instance] == "" {
			claims = append(claims, claim)
		}
	}
	return claims
}
