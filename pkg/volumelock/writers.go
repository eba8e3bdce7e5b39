package volumelock

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
)

// ReadWriters reads who has replaced the data of a cluster. An undo is refused for good where they don't lead back, so they are read
// past the cache, and count only if the cluster ran on the same data before and after.
func ReadWriters(ctx context.Context, live client.Reader, cluster *v1alpha1.PostgresCluster) ([]protocol.Writer, error) {
	restores, upgrades, after := &v1alpha1.RestoreList{}, &v1alpha1.UpgradeList{}, &v1alpha1.PostgresCluster{}
	if err := live.List(ctx, restores, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list Restores: %w", err)
	}
	if err := live.List(ctx, upgrades, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("list Upgrades: %w", err)
	}
	if err := live.Get(ctx, client.ObjectKeyFromObject(cluster), after); err != nil {
		return nil, fmt.Errorf("read PostgresCluster %s again: %w", cluster.Name, err)
	}
	if after.UID != cluster.UID || after.Status.DataGeneration != cluster.Status.DataGeneration {
		return nil, fmt.Errorf("PostgresCluster %s was given other data while the Restores and Upgrades were read that have replaced its data", cluster.Name)
	}
	return protocol.Writers(cluster, restores.Items, upgrades.Items), nil
}
