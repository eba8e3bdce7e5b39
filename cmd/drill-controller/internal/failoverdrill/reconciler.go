// Package failoverdrill brings one FailoverDrill to its end: it waits until a fault is safe, has a Job write numbered rows, decides on the fault,
// waits until the cluster is whole again, and compares what the Job has measured with limits. The fault itself is the db-controller's to cause:
// this controller may neither delete a pod nor read a Secret.
package failoverdrill

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// Reconciler brings FailoverDrills to their end.
type Reconciler struct {
	manager.Dependencies
	// settle is for how long rows are written to a cluster that is whole.
	settle time.Duration
}

// New makes the reconciler of FailoverDrills.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies, settle: settleTime}
}

// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrills,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrills/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrills/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters;backups;restores;upgrades,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// SetupWithManager watches FailoverDrills, their Jobs, and their clusters.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.FailoverDrill{}).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(worksFor)).
		Watches(&v1alpha1.PostgresCluster{}, handler.EnqueueRequestsFromMapFunc(r.drillsOf)).
		Complete(r)
}

// worksFor is the drill whose Job a pod belongs to: that its containers have ended shows there before it shows in the Job.
func worksFor(_ context.Context, pod client.Object) []reconcile.Request {
	drill, works := strings.CutSuffix(pod.GetLabels()[batchv1.JobNameLabel], protocol.FailoverDrillName(""))
	if !works || pod.GetLabels()[v1alpha1.LabelComponent] != workload.ComponentFailoverDrill {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: drill}}}
}

// drillsOf are the drills of a cluster that have not ended.
func (r *Reconciler) drillsOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	drills := &v1alpha1.FailoverDrillList{}
	if err := r.Client.List(ctx, drills, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the FailoverDrills of a cluster", "cluster", cluster.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range drills.Items {
		if drill := &drills.Items[i]; drill.Spec.Cluster.Name == cluster.GetName() && drill.Status.CompletedAt == nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(drill)})
		}
	}
	return requests
}

// Reconcile brings one FailoverDrill to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.FailoverDrill, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.FailoverDrill{}, Summary: v1alpha1.ConditionSucceeded,
		LogValues: func(d *v1alpha1.FailoverDrill) []any { return []any{"drill", d.Name, "cluster", d.Spec.Cluster.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

type step = flow.Step[*observed]

// plan is the algorithm. A drill needs no finalizer: its Job goes with it, and the db-controller removes the rest once it requests nothing.
func (r *Reconciler) plan(o *observed) []step {
	cleanUp := []step{withdraw, r.removeWriter, awaitReleased}
	switch {
	case !o.drill.DeletionTimestamp.IsZero():
		return nil
	case o.endedBefore:
		return []step{r.expire}
	case o.failure() != nil:
		return append(append([]step{pinFailure}, cleanUp...), concludeFailure)
	case o.drill.Status.Result != nil:
		return append(cleanUp, compare)
	}
	return []step{preflight, request, awaitPrepared, r.runWriter, awaitWriting, decide, awaitInjected, awaitWhole, r.stopWriting, takeResult}
}
