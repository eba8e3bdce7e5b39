package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/log"

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

// whileNamespaceLasts runs steps that keep the cluster going until its last backup is there, or its volume lock is released. In a namespace
// that is being deleted nothing can be created, so neither a missing object of the cluster nor a Backup nor a Job comes any more, and the
// pods and volumes go whatever is waited for here: the deletion continues without them.
func whileNamespaceLasts(goOn steps) flow.Step[*observed.Cluster] {
	return func(ctx context.Context, o *observed.Cluster) flow.Outcome {
		outcome := flow.Run(ctx, o, goOn...)
		if apierrors.HasStatusCause(outcome.Err, corev1.NamespaceTerminatingCause) {
			log.FromContext(ctx).Info("Deleting without a final backup, because the namespace is being deleted", "error", outcome.Err.Error())
			return flow.Next
		}
		return outcome
	}
}
