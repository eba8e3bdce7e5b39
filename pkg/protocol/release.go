package protocol

import (
	"slices"

	"howdah.dev/apis/v1alpha1"
)

// rememberedReleases bounds PostgresCluster.status.releasedDataGenerations. An instance that is away for longer than so
// many releases keeps what it has.
const rememberedReleases = 16

// Release computes PostgresCluster.status.releasedDataGenerations from what was released before and who asks. The data
// generation that the cluster runs on is never released, nor one that is being handed over.
func Release(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, asks []LockRequest) []string {
	released := slices.Clone(cluster.Status.ReleasedDataGenerations)
	needed := map[string]bool{"": true, cluster.Status.DataGeneration: true}
	for _, ask := range asks {
		if ask.Handover != nil {
			needed[ask.Handover.DataGeneration] = true
		}
	}
	for i := range restores {
		ask := restores[i].Status.Release
		if ask == nil || ask.ClusterUID != cluster.UID || restores[i].Namespace != cluster.Namespace {
			continue
		}
		if !needed[ask.DataGeneration] && !slices.Contains(released, ask.DataGeneration) {
			released = append(released, ask.DataGeneration)
		}
	}
	return released[max(0, len(released)-rememberedReleases):]
}

// Released reports whether the db-controller has the instances remove the data generation of a request.
func Released(cluster *v1alpha1.PostgresCluster, request *v1alpha1.ReleaseRequest) bool {
	return cluster != nil && request != nil && cluster.UID == request.ClusterUID &&
		slices.Contains(cluster.Status.ReleasedDataGenerations, request.DataGeneration)
}
