// Package verify has the objects of backups read and checked against their checksums: once where a Backup asks for it, and
// again and again on the schedule of a BackupRepository. A Job reads; one of a repository at a time.
package verify

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories;postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts,verbs=get;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// maxAttempts bounds the Jobs of one verification. Each tries several pods.
	maxAttempts = 5
	// lookAgain is how often a Job under way, or the queue, is looked at, for what no watch tells of.
	lookAgain = 20 * time.Second
)

// Reconciler of the verifications of Backups. How the backup itself was made is not its matter: it writes the condition
// Verified and what belongs to it.
type Reconciler struct {
	manager.Dependencies
	// Manifest says whether the manifest of a Backup is missing from its repository, as the last inventory has found it, and when that
	// was begun; zero: it isn't known. Nil: it never is.
	Manifest func(repo, backup types.UID) (missing bool, looked time.Time)
}

// New makes the reconciler of verifications, which is told by manifest what the inventory has found.
func New(dependencies manager.Dependencies, manifest func(repo, backup types.UID) (missing bool, looked time.Time)) *Reconciler {
	return &Reconciler{Dependencies: dependencies, Manifest: manifest}
}

type steps = []flow.Step[*observed]

// Reconcile brings the verification of one Backup to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.Backup, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.Backup{}, Summary: v1alpha1.ConditionSucceeded,
		LogValues: func(b *v1alpha1.Backup) []any { return []any{"backup", b.Name, "cluster", b.Spec.Cluster.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

func (r *Reconciler) plan(o *observed) steps {
	switch {
	case !succeeded(o.backup):
		return nil
	case o.leaving():
		return steps{r.clearJob}
	case underWay(o.backup) && o.job.Ended():
		return steps{r.takeResult, r.requireAttempts, r.tryAgain}
	case underWay(o.backup) && o.job.Lost(o.now):
		return steps{r.requireAttempts, r.tryAgain}
	case underWay(o.backup):
		return steps{r.ensureJob, r.awaitJob}
	case o.news == manifestLost:
		return steps{r.clearJob, r.noteLost}
	case o.news == manifestReturned:
		return steps{r.clearJob, r.noteReturned}
	case due(o.backup, o.repo):
		return steps{r.clearJob, r.awaitTurn, r.awaitRepository, r.begin}
	}
	return steps{r.clearJob}
}
