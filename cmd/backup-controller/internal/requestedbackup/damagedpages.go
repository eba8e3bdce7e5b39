package requestedbackup

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
)

// damagedPages is what a requested Backup does about pages that fail their checksum. Nobody can say so in its spec before it runs,
// and a deletion that waits for a final backup would wait forever because of one damaged page.
func (r *Reconciler) damagedPages(ctx context.Context, ask *protocol.BackupRequest) (v1alpha1.DamagedPagesPolicy, error) {
	cluster, namespace := &v1alpha1.PostgresCluster{}, ask.Requester.Namespace
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ask.Request.Cluster}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read PostgresCluster %s: %w", ask.Request.Cluster, err)
	}
	schedules := &v1alpha1.BackupScheduleList{}
	if err := r.Client.List(ctx, schedules, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list BackupSchedules: %w", err)
	}
	return damagedPagesOf(cluster, ask.Request.Cluster, schedules.Items), nil
}

// damagedPagesOf is the setting of the cluster, or what its schedules do.
func damagedPagesOf(cluster *v1alpha1.PostgresCluster, name string, schedules []v1alpha1.BackupSchedule) v1alpha1.DamagedPagesPolicy {
	if archive := cluster.Spec.Archive; archive != nil && archive.DamagedPages != "" {
		return archive.DamagedPages
	}
	if slices.ContainsFunc(schedules, func(s v1alpha1.BackupSchedule) bool {
		return s.Spec.Cluster.Name == name && s.Spec.DamagedPages == v1alpha1.DamagedPagesReport
	}) {
		return v1alpha1.DamagedPagesReport
	}
	return v1alpha1.DamagedPagesFail
}
