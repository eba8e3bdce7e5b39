// Package drill restores what is in a BackupRepository aside, on a schedule, has a Job look at it, and records what was
// found and how long it took. It makes a Restore, which makes the cluster, and deletes that in the end; nothing else is
// touched.
package drill

import (
	"context"
	"math/rand/v2"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=restores,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts,verbs=get;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// lookAgain is how often what no watch tells of is looked at: a cluster that goes, a Job's pod.
const lookAgain = 10 * time.Second

// cacheLag is how long a cache that lags gets to catch up.
const cacheLag = 100 * time.Millisecond

// Reconciler of the drills of BackupRepositories, one at a time of each.
type Reconciler struct {
	manager.Dependencies
	// Random is from 0 to n-1.
	Random func(n int64) int64
}

// New makes the reconciler of drills.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies, Random: rand.Int64N}
}

// SetupWithManager registers the reconciler. It is woken by the repository, by what it has created, and by the clock.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("drill").
		For(&v1alpha1.BackupRepository{}).
		Owns(&v1alpha1.Restore{}).
		Owns(&batchv1.Job{}).
		Complete(r)
}

type steps = []flow.Step[*observed]

// Reconcile moves the drills of one repository on. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.BackupRepository, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.BackupRepository{}, Summary: v1alpha1.ConditionReady,
		Observe: r.observe, Plan: r.plan, Report: report, Again: again,
	}.Reconcile(ctx, req)
}

// plan is the algorithm. What was made goes in the opposite order: nobody asks the cluster any more, then the Restore goes,
// and the cluster with it.
func (r *Reconciler) plan(o *observed) steps {
	run := o.underWay()
	switch {
	case run == nil && o.wanted():
		return steps{r.begin}
	case run == nil:
		return nil
	case run.Outcome != "":
		return steps{r.removeJob, r.removeRestore, r.awaitClusterGone, r.putAway}
	case o.ending() != nil:
		return steps{r.conclude}
	}
	return steps{r.ensureRestore, r.awaitRestore, r.ensureJob, r.awaitJob, r.takeResult}
}

// again has a repository that nothing else wakes looked at when the next time of its schedule comes, or when its drill has
// taken too long.
func again(o *observed, outcome flow.Outcome) time.Duration {
	var at time.Time
	switch run, status := o.underWay(), o.repo.Status.Drill; {
	case run != nil && run.Outcome == "":
		at = o.deadline()
	case run == nil && status != nil && status.NextScheduleTime != nil:
		at = status.NextScheduleTime.Time
	default:
		return outcome.After
	}
	after := max(at.Sub(o.now), 0) + time.Millisecond
	if outcome.After > 0 {
		return min(outcome.After, after)
	}
	return after
}
