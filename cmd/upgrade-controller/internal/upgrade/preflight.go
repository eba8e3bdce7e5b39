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
)

func (r *Reconciler) ensureFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.writer, w.upgrade, finalizer)
}

// preflight refuses what can't be done, before anything is touched. Each policy is a pure function of the world.
func (r *Reconciler) preflight(ctx context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.Plan != nil {
		return stillThere(w)
	}
	if w.upgrade.Spec.Cancel {
		return r.conclude(w, v1alpha1.ReasonCancelled, "cancelled before anything was done")
	}
	for _, policy := range []func(*world, manager.Images) flow.Outcome{clusterExists, versionIsHigher, imageIsKnown, clusterIsReady, nobodyUpgrades} {
		if outcome := policy(w, r.images); !outcome.Finished() {
			return outcome
		}
	}
	return flow.Next
}

// stillThere stops the work for a cluster that was deleted under it.
func stillThere(w *world) flow.Outcome {
	if w.gone {
		return flow.Stop(v1alpha1.ReasonClusterReplaced,
			fmt.Sprintf("PostgresCluster %s was deleted since this upgrade began; delete this Upgrade", w.upgrade.Spec.Cluster.Name))
	}
	return flow.Next
}

func clusterExists(w *world, _ manager.Images) flow.Outcome {
	if w.cluster == nil {
		return flow.Stop(v1alpha1.ReasonClusterNotFound, fmt.Sprintf(
			"there is no PostgresCluster %s in namespace %s; `kubectl get pgc` lists those that are there",
			w.upgrade.Spec.Cluster.Name, w.upgrade.Namespace))
	}
	return flow.Next
}

func versionIsHigher(w *world, _ manager.Images) flow.Outcome {
	running := w.cluster.Status.MajorVersion
	switch {
	case running == 0 || w.upgrade.Spec.Version > running:
		return flow.Next
	case w.upgrade.Spec.Version == running:
		return flow.Stop(v1alpha1.ReasonDowngrade, fmt.Sprintf(
			"%s runs PostgreSQL %d already; for a newer minor version change spec.image of the PostgresCluster", w.cluster.Name, running))
	}
	return flow.Stop(v1alpha1.ReasonDowngrade, fmt.Sprintf(
		"%s runs PostgreSQL %d and can't go down to %d; write a spec.version higher than %d", w.cluster.Name, running, w.upgrade.Spec.Version, running))
}

func imageIsKnown(w *world, images manager.Images) flow.Outcome {
	if w.upgrade.Spec.Image != "" || images[w.upgrade.Spec.Version] != "" {
		return flow.Next
	}
	return flow.Stop(v1alpha1.ReasonUnknownVersion, fmt.Sprintf(
		"no image is known for PostgreSQL %d; known are %s: write one of them, or set spec.image", w.upgrade.Spec.Version, known(images)))
}

func known(images manager.Images) string {
	var versions []int32
	for version := range images {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(versions), " ", ", "), "[]")
}

func clusterIsReady(w *world, _ manager.Images) flow.Outcome {
	if !w.clusterReady() {
		return flow.Wait(v1alpha1.ReasonClusterNotReady, fmt.Sprintf("waiting until %s is Ready; it says %s", w.cluster.Name, w.clusterState()))
	}
	return flow.Next
}

// nobodyUpgrades keeps this one out of another's way; the hold would queue it, but its plan would be out of date then.
func nobodyUpgrades(w *world, _ manager.Images) flow.Outcome {
	if before := protocol.LockAhead(w.cluster, w.upgrade.UID); before != nil {
		return flow.Wait(v1alpha1.ReasonQueued, fmt.Sprintf("%s %s works on %s first", before.Kind, before.Name, w.cluster.Name))
	}
	return flow.Next
}

// pinPlan records from what to what, before anything is touched.
func (r *Reconciler) pinPlan(_ context.Context, w *world) flow.Outcome {
	if w.upgrade.Status.Plan != nil {
		return flow.Next
	}
	image := w.upgrade.Spec.Image
	if image == "" {
		image = r.images[w.upgrade.Spec.Version]
	}
	status := w.cluster.Status
	w.upgrade.Status.Plan = &v1alpha1.UpgradePlan{
		ClusterUID: w.cluster.UID, FromVersion: status.MajorVersion, FromImage: status.Image,
		FromGeneration: status.DataGeneration, FromSystemIdentifier: status.SystemIdentifier,
		ToImage: image, ToGeneration: protocol.DataGeneration(w.upgrade.UID, 0),
	}
	w.upgrade.Status.StartedAt = &metav1.Time{Time: r.now()}
	return flow.Save(v1alpha1.ReasonPlanned, fmt.Sprintf("from PostgreSQL %d to %d", status.MajorVersion, w.upgrade.Spec.Version))
}
