package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/volumelock"
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.Client, o.upgrade, finalizer)
}

// preflight refuses what can't be done, before anything is touched. Each policy is a pure function of what was observed.
func (r *Reconciler) preflight(_ context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.Plan != nil {
		return flow.Next
	}
	for _, policy := range []func(*observed, manager.Images) flow.Outcome{
		clusterExists, clusterRemains, clusterIsOwner, versionIsHigher, imageIsKnown, clusterIsReady, replicaIsThere, nobodyElseWorks,
	} {
		if outcome := policy(o, r.Images); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

func clusterExists(o *observed, _ manager.Images) flow.Outcome {
	if o.cluster == nil {
		return flow.Missing(o.upgrade, o.now, v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"There is no PostgresCluster %s in namespace %s. `kubectl get pgc` lists those that exist.",
			o.upgrade.Spec.Cluster.Name, o.upgrade.Namespace))
	}
	return flow.Next
}

func clusterRemains(o *observed, _ manager.Images) flow.Outcome {
	if o.cluster.DeletionTimestamp.IsZero() {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf("PostgresCluster %s is being deleted.", o.cluster.Name))
}

// clusterIsOwner refuses what was decided for a former cluster of that name.
func clusterIsOwner(o *observed, _ manager.Images) flow.Outcome {
	owner := metav1.GetControllerOf(o.upgrade)
	if !o.upgrade.Spec.Automatic || owner == nil || owner.UID == o.cluster.UID {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonClusterReplaced, fmt.Sprintf("This PostgresCluster %s is not the one that the Upgrade was created for.", o.cluster.Name))
}

func versionIsHigher(o *observed, _ manager.Images) flow.Outcome {
	running := o.cluster.Status.MajorVersion
	switch {
	case running == 0 || o.upgrade.Spec.Version > running:
		return flow.Next
	case o.upgrade.Spec.Version == running:
		return flow.Stop(v1alpha1.ReasonDowngrade, fmt.Sprintf(
			"PostgresCluster %s already runs PostgreSQL %d. For a newer minor version change spec.image of the PostgresCluster.", o.cluster.Name, running))
	}
	return flow.Stop(v1alpha1.ReasonDowngrade, fmt.Sprintf(
		"PostgresCluster %s runs PostgreSQL %d and can't be downgraded to %d. Create an Upgrade with a spec.version higher than %d.", o.cluster.Name, running, o.upgrade.Spec.Version, running))
}

func imageIsKnown(o *observed, images manager.Images) flow.Outcome {
	if o.upgrade.Spec.Image != "" || images[o.upgrade.Spec.Version] != "" {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonUnknownVersion, fmt.Sprintf(
		"No image is known for PostgreSQL %d; known are %s. Create an Upgrade to one of them, or set spec.image.", o.upgrade.Spec.Version, known(images)))
}

func known(images manager.Images) string {
	var versions []int32
	for version := range images {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(versions), " ", ", "), "[]")
}

func clusterIsReady(o *observed, _ manager.Images) flow.Outcome {
	if !volumelock.Ready(o.cluster) {
		return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("Waiting until PostgresCluster %s is Ready. It says: %s", o.cluster.Name, volumelock.State(o.cluster)))
	}
	return flow.Next
}

func nobodyElseWorks(o *observed, _ manager.Images) flow.Outcome { return o.lock().AwaitTurn() }

// pinPlan records from what to what, before anything is touched.
func (r *Reconciler) pinPlan(_ context.Context, o *observed) flow.Outcome {
	if o.upgrade.Status.Plan != nil {
		return flow.Next
	}
	image := o.upgrade.Spec.Image
	if image == "" {
		image = r.Images[o.upgrade.Spec.Version]
	}
	status := o.cluster.Status
	o.upgrade.Status.Plan = &v1alpha1.UpgradePlan{
		ClusterUID: o.cluster.UID, FromVersion: status.MajorVersion, FromImage: status.Image,
		FromGeneration: status.DataGeneration, FromSystemIdentifier: status.SystemIdentifier,
		ToImage: image, ToGeneration: protocol.DataGeneration(o.upgrade.UID, 0),
	}
	o.upgrade.Status.StartedAt = &metav1.Time{Time: o.now}
	return flow.Save(v1alpha1.ReasonPlanned, fmt.Sprintf("The upgrade from PostgreSQL %d to %d is planned.", status.MajorVersion, o.upgrade.Spec.Version))
}
