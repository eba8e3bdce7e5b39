// Package backup takes Backups to their end: it decides what is read, from where and where to, gives the work to a Job
// beside the instance, and deletes the data with the object.
package backup

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/pkg/background"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters;backuprepositories,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts,verbs=get;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=secrets;namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

const (
	finalizer = "howdah.dev/backup-data"
	// maxAttempts bounds the Jobs of one backup. Each tries several pods, and a new one is only made when cluster and
	// repository are Ready.
	maxAttempts = 5
	// lookAgain is how often a Job under way is looked at, for what no watch tells of.
	lookAgain = 20 * time.Second
	// storeRetry is the pause before the store is tried again.
	storeRetry = 30 * time.Second
	// storeTimeout bounds the first attempt to look at or delete a backup's objects. One that follows on an attempt for which that was too little
	// has twice as much, up to longestTimeout, which is less than the lock of a bucket lasts.
	storeTimeout, longestTimeout = 10 * time.Minute, 40 * time.Minute
)

// Reconciler of Backups.
type Reconciler struct {
	manager.Dependencies
	Open repostore.Opener
	// Stores does what takes long in an object store.
	Stores *background.Runner[found]
	// Deletions keeps Jobs from starting while something is deleted from their lineage.
	Deletions *deletionlock.Locks
	// Queue bounds how many Jobs run at a time.
	Queue *queue.Queue
}

// New makes the reconciler of Backups. Its work in stores ends with ctx.
func New(ctx context.Context, dependencies manager.Dependencies, open repostore.Opener, deletions *deletionlock.Locks, queue *queue.Queue) *Reconciler {
	return &Reconciler{Dependencies: dependencies, Open: open, Stores: Stores(ctx), Deletions: deletions, Queue: queue}
}

// Stores makes the Runner of work in object stores.
func Stores(ctx context.Context) *background.Runner[found] {
	return background.New[found](ctx, background.Options{Timeout: longestTimeout, Limit: 6, Now: time.Now})
}

type steps = []flow.Step[*observed]

// Reconcile brings one Backup to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Backup, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.Backup{}, Summary: v1alpha1.ConditionSucceeded,
		LogValues: func(b *v1alpha1.Backup) []any { return []any{"backup", b.Name, "cluster", b.Spec.Cluster.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

func (r *Reconciler) plan(o *observed) steps {
	switch {
	case o.deleting() && (!o.backup.Spec.Hold || o.namespaceGoes):
		return steps{r.stopJob, r.leaveQueue, r.deleteData, r.removeFinalizer}
	case o.deleting() && o.ended():
		return steps{r.leaveQueue, r.removeJob, awaitRelease}
	case o.ended():
		return steps{r.leaveQueue, r.removeJob}
	case o.backup.Spec.Cancel:
		return steps{r.stopJob, r.leaveQueue, r.tidy, concludeCancelled}
	}
	if o.backup.Spec.Found != nil {
		return steps{r.ensureFinalizer, r.describeFound}
	}
	begin := steps{r.ensureFinalizer, requireCluster, requireArchive, awaitTurn, awaitRepository, awaitCluster, r.awaitPlace, pinPlan}
	switch {
	case o.backup.Status.Plan == nil:
		return begin
	case o.outdated != "":
		return append(steps{r.stopJob, r.leaveQueue, r.settle, requireSameCluster, requireAttempts}, begin...)
	case o.failedForGood() && o.needsMemory() == 0:
		return steps{r.leaveQueue, r.tidy, concludeFailed}
	case o.job.Failed:
		return append(steps{r.leaveQueue, r.settle, requireAttempts}, begin...)
	}
	return append(steps{r.ensureJob, awaitJob, takeResult, r.settle, requireAttempts}, begin...)
}
