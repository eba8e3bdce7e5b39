package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// keepOrder takes back that Kubernetes deletes all objects of the cluster at once and ahead of it, which a deletion in the
// foreground asks for (kubectl delete --cascade=foreground, Argo CD): the last backup needs them. In the end the deletion
// is over only when they are being deleted, all the same.
func (r *Reconciler) keepOrder(ctx context.Context, o *observed.Cluster) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, o.Cluster, metav1.FinalizerDeleteDependents)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed.Cluster) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, o.Cluster, observed.Finalizer)
}
