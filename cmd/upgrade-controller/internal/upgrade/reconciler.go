// Package upgrade brings one Upgrade to its end: a check on a copy of the schema, then pg_upgrade on the volume that the
// db-controller granted, into a new data generation. Until the new version runs, every failure leads back to the old one.
package upgrade

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

const finalizer = "howdah.dev/upgrade"

// startLimit is how long the cluster may take to become Ready on the new version before it is taken back.
const startLimit = 10 * time.Minute

// Reconciler brings Upgrades to their end.
type Reconciler struct {
	manager.Dependencies
}

// New makes the reconciler of Upgrades.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies}
}

// +kubebuilder:rbac:groups=howdah.dev,resources=upgrades,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=upgrades/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=howdah.dev,resources=upgrades/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=restores,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters;backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// SetupWithManager watches Upgrades, their Jobs, and the clusters and backups that they wait for.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Upgrade{}).
		Owns(&batchv1.Job{}).
		Owns(&v1alpha1.Restore{}).
		Owns(&v1alpha1.Upgrade{}). // of the copy of a rehearsal
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(worksFor)).
		Watches(&v1alpha1.PostgresCluster{}, handler.EnqueueRequestsFromMapFunc(r.upgradesOf)).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(r.requesterOf)).
		Complete(r)
}

// Woken are the Upgrades that a change of an object wakes, as SetupWithManager has it.
func (r *Reconciler) Woken(ctx context.Context, object client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(object)
	owned := owner != nil && owner.Kind == v1alpha1.KindUpgrade
	switch object.(type) {
	case *v1alpha1.PostgresCluster:
		return r.upgradesOf(ctx, object)
	case *v1alpha1.Backup:
		return r.requesterOf(ctx, object)
	case *corev1.Pod:
		return worksFor(ctx, object)
	case *v1alpha1.Upgrade:
		woken := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
		if owned {
			woken = append(woken, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}})
		}
		return woken
	case *batchv1.Job, *v1alpha1.Restore:
		if owned {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}}}
		}
	}
	return nil
}

// upgradesOf are the Upgrades of a cluster.
func (r *Reconciler) upgradesOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	upgrades := &v1alpha1.UpgradeList{}
	if err := r.Client.List(ctx, upgrades, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the Upgrades of a cluster", "cluster", cluster.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range upgrades.Items {
		if upgrades.Items[i].Spec.Cluster.Name == cluster.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&upgrades.Items[i])})
		}
	}
	return requests
}

// worksFor is the Upgrade whose work a pod does: that its containers have ended shows there before it shows in the Job.
func worksFor(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[batchv1.JobNameLabel]
	upgrade, works := strings.CutSuffix(name, workSuffix)
	if at := strings.LastIndex(name, "-data-"); !works && at >= 0 { // the last: the name of the Upgrade may have one
		upgrade, works = name[:at], true
	}
	if !works || pod.GetLabels()[v1alpha1.LabelComponent] != workload.ComponentUpgrade {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: upgrade}}}
}

// requesterOf is the Upgrade that a Backup was made for.
func (r *Reconciler) requesterOf(_ context.Context, object client.Object) []reconcile.Request {
	backup, ok := object.(*v1alpha1.Backup)
	if !ok || backup.Spec.RequestedBy == nil || backup.Spec.RequestedBy.Kind != v1alpha1.KindUpgrade {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: backup.Namespace, Name: backup.Spec.RequestedBy.Name}}}
}

// Reconcile brings one Upgrade to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Upgrade, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.Upgrade{}, Summary: v1alpha1.ConditionSucceeded,
		LogValues: func(upgrade *v1alpha1.Upgrade) []any {
			return []any{"upgrade", upgrade.Name, "cluster", upgrade.Spec.Cluster.Name}
		},
		Observe: r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

type step = flow.Step[*observed]

// plan is the algorithm. Until the new version has served clients everything is taken back by stopping the Jobs and giving the volumes back;
// from then on only a person's decision leads back.
func (r *Reconciler) plan(o *observed) []step {
	if o.upgrade.Spec.Rehearsal != nil {
		return rehearser{r}.plan(o)
	}
	giveUp := []step{r.stopJobs, takeBack, awaitTakenBack, withdrawLock, awaitReturned, releaseGivenUp}
	switch {
	case o.deleting() && o.upgraded() && (o.settled() || o.cluster == nil):
		return []step{r.deleteJobs, r.releaseLeft, withdrawLock, r.removeFinalizer}
	case o.deleting() && !o.upgraded():
		return append(giveUp, r.removeFinalizer)
	case o.settled() && o.decided() == v1alpha1.UpgradeRollBack && o.lock().Leaves():
		return []step{r.deleteJobs, withdrawLock} // data that a person wants back is not deleted because time has passed
	case o.settled(), o.ended() && !o.upgraded():
		return []step{r.deleteJobs, withdrawLock, r.expire}
	case o.upgraded():
		return r.planUpgraded(o)
	case o.failure() != nil:
		return append(append([]step{r.pinFailure}, giveUp...), r.awaitServing, r.conclude)
	}
	steps := []step{r.ensureFinalizer, r.preflight, r.pinPlan, checker{r}.runCheck, checker{r}.awaitCheck}
	if o.upgrade.Spec.CheckOnly {
		return steps
	}
	return append(steps,
		requestPriorBackup, awaitPriorBackup, awaitPermission, awaitReplica, requestLock, withdrawQueued, awaitLock,
		pinVolumes, linker{r}.runInspections, linker{r}.pinWayBack, pinPrevious, r.runUpgrade, r.awaitUpgrade, r.handOver, awaitRunning,
	)
}
