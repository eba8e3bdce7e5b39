// Package verify has the objects of backups read and checked against their checksums: once where a Backup asks for it, and
// again and again on the schedule of a BackupRepository. A Job reads; one of a repository at a time.
package verify

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories,verbs=get;list;watch
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
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	Events events.EventRecorder
	Agent  workload.Agent
	Now    func() time.Time
}

type steps = []flow.Step[*world]

// Reconcile brings the verification of one Backup to its end. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	backup := &v1alpha1.Backup{}
	if err := r.Client.Get(ctx, req.NamespacedName, backup); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pass := flow.Begin(r.Client, r.Events, backup, flow.Announcements{Summary: v1alpha1.ConditionSucceeded})
	w, err := r.observe(ctx, backup)
	outcome := flow.Retry(err)
	if err == nil {
		outcome = flow.Run(ctx, w, r.plan(w)...)
	}
	report(backup, outcome)
	return pass.Commit(ctx, outcome)
}

func (r *Reconciler) plan(w *world) steps {
	switch {
	case !succeeded(w.backup):
		return nil
	case w.leaving():
		return steps{r.clearJob}
	case underWay(w.backup) && w.job.Ended():
		return steps{r.takeResult, r.requireAttempts, r.tryAgain}
	case underWay(w.backup) && w.job.Lost(w.now):
		return steps{r.requireAttempts, r.tryAgain}
	case underWay(w.backup):
		return steps{r.ensureJob, r.awaitJob}
	case due(w.backup, w.repo):
		return steps{r.clearJob, r.awaitTurn, r.awaitRepository, r.begin}
	}
	return steps{r.clearJob}
}
