// Package restore brings one Restore to its end: it plans in the bucket how to reach the target, creates the PostgresCluster or
// takes an existing one, requests its volumes, has one Job write the data there, and hands it over. Until the cluster runs on
// the restored data, every failure leads back to nothing at all, or to the previous data. Tables go into a running cluster from a temporary copy,
// which is a Restore of its own.
package restore

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/internal/planning"
	"howdah.dev/howdah/pkg/background"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
)

const (
	finalizer = "howdah.dev/restore"
	// parallelReads bounds how many buckets are read at once, and readLimit each of them.
	parallelReads = 6
	readLimit     = 10 * time.Minute
)

// Reconciler brings Restores to their end.
type Reconciler struct {
	manager.Dependencies
	// Open opens the bucket of a repository.
	Open repostore.Opener

	reports *background.Runner[read[planning.Report]]
	headers *background.Runner[read[*backup.Header]]
}

// New makes the reconciler of Restores. Its reads end with ctx.
func New(ctx context.Context, dependencies manager.Dependencies, open repostore.Opener) *Reconciler {
	reads := background.Options{Timeout: readLimit, Limit: parallelReads, Now: dependencies.Now}
	return &Reconciler{
		Dependencies: dependencies, Open: open,
		reports: background.New[read[planning.Report]](ctx, reads),
		headers: background.New[read[*backup.Header]](ctx, reads),
	}
}

// Reconcile brings one Restore to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Restore, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.Restore{}, Summary: v1alpha1.ConditionSucceeded,
		LogValues: func(restore *v1alpha1.Restore) []any {
			return []any{"restore", restore.Name, "cluster", restore.Spec.Destination.ClusterName()}
		},
		Observe: r.observe, Plan: r.plan, Report: report, Done: r.done,
	}.Reconcile(ctx, req)
}

// done forgets what was read for a Restore that reads no more.
func (r *Reconciler) done(o *observed, _ *flow.Pass, _ flow.Outcome) {
	switch {
	case o.ended() || o.deleting():
		r.forget(o.restore)
	case o.restore.Status.Plan != nil:
		r.reports.Forget(o.restore)
		if o.inPlace() { // the cluster has its own record
			r.headers.Forget(o.restore)
		}
	}
}

func (r *Reconciler) forget(restore *v1alpha1.Restore) {
	r.reports.Forget(restore)
	r.headers.Forget(restore)
}

type step = flow.Step[*observed]

// plan is the algorithm. The work is given up in the opposite order: the Job is stopped, the volumes are given back, and the
// cluster that never ran is deleted.
func (r *Reconciler) plan(o *observed) []step {
	switch {
	case o.inPlace():
		return r.planInPlace(o)
	case o.intoCluster() != nil:
		return intoRestorer{r}.plan(o)
	}
	giveUp := []step{r.stopJob, withdrawLock, awaitReturned, r.deleteUnfinished, awaitClusterDeleted}
	switch {
	case o.deleting() && o.ended():
		return []step{r.removeFinalizer}
	case o.deleting():
		return append(giveUp, r.removeFinalizer)
	case o.ended():
		return []step{awaitFirstBackup, r.expire}
	case o.failure() != nil && !o.runsRestored():
		return append(append([]step{pinFailure}, giveUp...), conclude)
	}
	steps := []step{r.ensureFinalizer, preflight, r.pinPlan}
	if o.planOnly() {
		return steps
	}
	return append(steps,
		awaitNamesFree, r.ensureCluster, r.ensureLogins, requestLock, awaitLock,
		r.runJob, awaitJob, r.handOver, awaitRunning,
		finish,
	)
}
