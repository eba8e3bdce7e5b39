package protocol

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
)

// rememberedReleases bounds PostgresCluster.status.releasedDataGenerations. An instance that is away for longer than so
// many releases keeps what it has.
const rememberedReleases = 16

// ReleaseRequests collects the requests to remove a data generation of this very cluster.
func ReleaseRequests(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) []v1alpha1.ReleaseRequest {
	var requests []v1alpha1.ReleaseRequest
	add := func(namespace string, release *v1alpha1.ReleaseRequest) {
		if release != nil && release.ClusterUID == cluster.UID && namespace == cluster.Namespace {
			requests = append(requests, *release)
		}
	}
	for i := range restores {
		add(restores[i].Namespace, restores[i].Status.Release)
	}
	for i := range upgrades {
		add(upgrades[i].Namespace, upgrades[i].Status.Release)
	}
	return requests
}

// Release computes PostgresCluster.status.releasedDataGenerations from what was released before and who asks. The data
// generation that the cluster runs on is never released, nor one that is being handed over, nor one that somebody may yet be undone to.
func Release(cluster *v1alpha1.PostgresCluster, requests []v1alpha1.ReleaseRequest, asks []LockRequest, writers []Writer) []string {
	released := slices.Clone(cluster.Status.ReleasedDataGenerations)
	needed := map[string]bool{"": true, cluster.Status.DataGeneration: true}
	for _, writer := range writers {
		if writer.Undoable {
			needed[writer.Previous] = true
		}
	}
	for _, ask := range asks {
		if ask.Handover != nil {
			needed[ask.Handover.DataGeneration] = true
		}
	}
	for _, ask := range requests {
		if !needed[ask.DataGeneration] && !slices.Contains(released, ask.DataGeneration) {
			released = append(released, ask.DataGeneration)
		}
	}
	return released[max(0, len(released)-rememberedReleases):]
}

// Restorable reports whether a backup of a lineage has succeeded and stays, so that it is another way back than a volume. With a repository, it has
// to be there: WAL in one repository can't be replayed on a backup in another.
func Restorable(lineage, repository string, backups []v1alpha1.Backup) bool {
	return slices.ContainsFunc(backups, func(b v1alpha1.Backup) bool {
		plan, conditions := b.Status.Plan, b.Status.Conditions
		return b.DeletionTimestamp.IsZero() && plan != nil && lineage != "" && plan.Lineage == lineage && (repository == "" || plan.Repository == repository) &&
			meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionSucceeded) && !meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionVerified)
	})
}

// Released reports whether the db-controller has the instances remove the data generation of a request.
func Released(cluster *v1alpha1.PostgresCluster, request *v1alpha1.ReleaseRequest) bool {
	return cluster != nil && request != nil && cluster.UID == request.ClusterUID &&
		slices.Contains(cluster.Status.ReleasedDataGenerations, request.DataGeneration)
}
