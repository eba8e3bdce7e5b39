// Package volumemove moves the instances to new volumes, smaller ones or those of another StorageClass: one after the other, each cloned
// from the primary, and the primary last, after a switchover. docs/proposals/0008 has the argument.
//
// No volume is deleted that may hold what others lack: its instance is fenced, and the primary no longer counts on it, before its claim
// is deleted and again before its pod is, which alone keeps a deleted claim.
package volumemove

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/pkg/flow"
)

// Steps that move instances. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	Rolling *rolling.Steps
}

// Plan records a plan where there is something to move, that it begins once a person has approved it, and that it is done. Nothing is
// changed before: until it begins, new volumes are as they were.
func Plan(_ context.Context, o *observed.Cluster) flow.Outcome {
	move := o.Cluster.Status.StorageMove
	if !o.Begun() || o.Deleting() || move.Leaving() != "" {
		return flow.Next
	}
	if move != nil && move.Current != nil && same(move.To, volume.Asked(o.Cluster)) {
		return flow.Next // what was approved is what is asked for, and is being done
	}
	rest := unlike(o)
	switch {
	case len(rest) == 0 && (move == nil || move.State == v1alpha1.StorageMoveCompleted):
		return flow.Next
	case len(rest) == 0 && move.State == v1alpha1.StorageMovePlanned:
		o.Cluster.Status.StorageMove = nil
		return flow.Save(v1alpha1.ReasonApplying, "All volumes match spec.storage, so none is moved.")
	case len(rest) == 0:
		move.State, move.CompletedAt = v1alpha1.StorageMoveCompleted, observed.TimeOf(o.Now)
		return flow.Save(v1alpha1.ReasonStorageMoving, "All instances have new volumes.")
	case move == nil || move.State == v1alpha1.StorageMoveCompleted:
		if o.Cluster.Spec.Storage.Move == nil {
			return flow.Next // nobody asks for a plan
		}
		return begin(o)
	case !same(move.To, volume.Asked(o.Cluster)):
		return begin(o)
	case move.State == v1alpha1.StorageMovePlanned && approved(o) && obstacle(o) == "":
		move.State, move.StartedAt = v1alpha1.StorageMoveMoving, observed.TimeOf(o.Now)
		if o.Cluster.Spec.Storage.AutoGrow == nil {
			o.Cluster.Status.Storage = nil // what had grown is as large as spec says from now on
		}
		return flow.Save(v1alpha1.ReasonStorageMoving, "The move to new volumes begins.")
	}
	return flow.Next
}

// begin records a plan. Its name says of which spec it is, so that no consent to another one counts.
func begin(o *observed.Cluster) flow.Outcome {
	to := volume.Asked(o.Cluster)
	o.Cluster.Status.StorageMove = &v1alpha1.StorageMoveStatus{
		Plan: fmt.Sprintf("g%d-%d", o.Cluster.Generation, o.Now.Unix()%100000), State: v1alpha1.StorageMovePlanned, From: from(o), To: to,
	}
	return flow.Save(v1alpha1.ReasonStorageMovePlanned, fmt.Sprintf("A move to volumes of %s is planned.", describe(to)))
}

// from is what new volumes are like until the move begins.
func from(o *observed.Cluster) v1alpha1.VolumeShape {
	if former := o.Cluster.Status.StorageMove; former != nil {
		switch former.State {
		case v1alpha1.StorageMovePlanned:
			return former.From
		case v1alpha1.StorageMoveMoving:
			return former.To
		}
	}
	shape := v1alpha1.VolumeShape{}
	if claim := o.Claim(o.DataInstance()); claim != nil {
		shape = shapeOf(claim)
	}
	if set := o.StatefulSet(); set != nil && len(set.Spec.VolumeClaimTemplates) > 0 {
		shape.Size = volume.Requested(&set.Spec.VolumeClaimTemplates[0])
	}
	return shape
}

// Continue continues with the instance that is being moved.
func (s *Steps) Continue(ctx context.Context, o *observed.Cluster) flow.Outcome {
	move := o.Cluster.Status.StorageMove
	if move == nil || move.Current == nil {
		return flow.Next
	}
	name := move.Current.Instance
	ordinal := o.Names.Ordinal(name)
	switch {
	case ordinal < 0 || ordinal >= o.Wanted():
		return end(o, fmt.Sprintf("spec.instances no longer includes %s.", name))
	case move.Current.State == v1alpha1.InstanceMoveLeaving:
		return s.leave(ctx, o, ordinal)
	case follows(o, ordinal):
		log.FromContext(ctx).Info("Moved an instance to a new volume", "pod", name)
		return end(o, fmt.Sprintf("%s follows on its new volume.", name))
	case leads(o, ordinal):
		return end(o, fmt.Sprintf("%s became the primary on its new volume.", name))
	}
	return flow.Next // whatever else there is to do waits for it by itself
}

// leave deletes the claim of an instance, and then its pod, each only while nobody counts on what is on the volume.
func (s *Steps) leave(ctx context.Context, o *observed.Cluster, ordinal int) flow.Outcome {
	current, claim, pod := o.Cluster.Status.StorageMove.Current, o.Claim(ordinal), o.Pod(ordinal)
	switch {
	case claim == nil || claim.UID != current.VolumeUID:
		current.State = v1alpha1.InstanceMoveCloning
		return flow.Save(v1alpha1.ReasonStorageMoving, fmt.Sprintf("%s is cloned to its new volume.", current.Instance))
	case pod != nil && !pod.DeletionTimestamp.IsZero():
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonStorageMoving, fmt.Sprintf("Pod %s is being deleted.%s", pod.Name, availability.Stuck(o)))
	}
	if why := returns(o, ordinal); why != "" {
		return end(o, why)
	}
	if why := counted(o, ordinal); why != "" {
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonStorageMoving, why)
	}
	if claim.DeletionTimestamp.IsZero() {
		log.FromContext(ctx).Info("Deleting the volume of an instance that moves to another one", "pod", current.Instance, "name", claim.Name)
		if err := s.Remove(ctx, claim); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(pace.BusyInterval, v1alpha1.ReasonStorageMoving, leaving(current.Instance))
	}
	return s.removePod(ctx, o, pod)
}

// removePod ends the pod that alone keeps a deleted claim. The pod has to be the very one that was seen, unchanged: one that was told
// meanwhile to run PostgreSQL again is another version of it.
func (s *Steps) removePod(ctx context.Context, o *observed.Cluster, pod *corev1.Pod) flow.Outcome {
	err := s.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return flow.Retry(fmt.Errorf("delete pod %s: %w", pod.Name, err))
	}
	log.FromContext(ctx).Info("Deleted the pod of an instance that moves to another volume", "pod", pod.Name)
	return flow.Poll(pace.BusyInterval, v1alpha1.ReasonStorageMoving, leaving(o.Cluster.Status.StorageMove.Current.Instance))
}

func leaving(instance string) string {
	return fmt.Sprintf("%s leaves its volume for a new one.", instance)
}

// end is the end of the work on one instance, and what came of it.
func end(o *observed.Cluster, why string) flow.Outcome {
	o.Cluster.Status.StorageMove.Current = nil
	return flow.Save(v1alpha1.ReasonStorageMoving, why)
}

// Next takes up the next instance, when all is well: a replica, or the primary, once all replicas were moved and one of them has taken over.
func (s *Steps) Next(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if !underWay(o) || o.Cluster.Status.StorageMove.Current != nil {
		return flow.Next
	}
	next := nextInstance(o)
	if next < 0 || waits(o, next) != "" {
		return flow.Next // the condition says why
	}
	name := o.Names.Instance(next)
	if next == o.Primary() {
		return s.Rolling.GiveAway(ctx, o, "move", availability.Heir(o, o.Reach()), fmt.Sprintf("%s has to move to another volume.", name))
	}
	o.Cluster.Status.StorageMove.Current = &v1alpha1.CurrentStorageMove{
		Instance: name, VolumeUID: o.Claim(next).UID, State: v1alpha1.InstanceMoveLeaving,
	}
	return flow.Save(v1alpha1.ReasonStorageMoving, leaving(name))
}
