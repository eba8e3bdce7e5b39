// Package repository looks after BackupRepositories: it checks that their store can do what is needed, says what it
// can't, and keeps one that is still needed from being deleted.
package repository

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/pruning"
	"howdah.dev/howdah/pkg/background"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	finalizer = "howdah.dev/in-use"
	// recheckGood and recheckBad are the times between two checks.
	recheckGood = 3 * time.Minute
	recheckBad  = 30 * time.Second
	// checkTimeout bounds one check: a handful of small requests.
	checkTimeout = 20 * time.Second
)

// Reconciler of BackupRepositories.
type Reconciler struct {
	manager.Dependencies
	Open   repostore.Opener
	Checks *background.Runner[verdict]
	// Pruner looks repositories through, and Looks does so in the background.
	Pruner *pruning.Pruner
	Looks  *background.Runner[pruning.Result]
	// Token makes a random name under which a check works.
	Token func() string
}

// New makes the reconciler of BackupRepositories. Its checks and looks end with ctx.
func New(ctx context.Context, dependencies manager.Dependencies, open repostore.Opener, pruner *pruning.Pruner) *Reconciler {
	return &Reconciler{
		Dependencies: dependencies, Open: open, Checks: Checker(ctx), Pruner: pruner, Looks: pruning.Runner(ctx),
		Token: func() string { return strings.ToLower(rand.Text()) },
	}
}

// Checker makes the Runner of checks.
func Checker(ctx context.Context) *background.Runner[verdict] {
	return background.New[verdict](ctx, background.Options{Timeout: checkTimeout, Limit: 8, Now: time.Now})
}

// SetupWithManager registers the reconciler and what wakes it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BackupRepository{}).
		Watches(&v1alpha1.PostgresCluster{}, r.users(clusterUses)).
		Watches(&v1alpha1.Backup{}, r.backups(), builder.WithPredicates(comesEndsOrGoes())).
		WatchesRawSource(r.Checks.Source()).
		WatchesRawSource(r.Looks.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// observed is what one pass has observed.
type observed struct {
	repo *v1alpha1.BackupRepository
	// secret identifies the content of the credentials and keys, so that a change of them is a new check.
	secret string
	// checked is what the last check has found.
	checked verdict
	users   []string
	// mark changes with the Backups in the repository.
	mark string
}

// Reconcile checks one BackupRepository, and lets it go when nobody needs it. plan is the algorithm; everything else serves
// it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.BackupRepository, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.BackupRepository{}, Summary: v1alpha1.ConditionReady,
		Observe: r.observe, Plan: r.plan, Report: report,
	}.Reconcile(ctx, req)
}

func (r *Reconciler) plan(o *observed) []flow.Step[*observed] {
	if o.repo.DeletionTimestamp.IsZero() {
		return []flow.Step[*observed]{r.ensureFinalizer, r.check, r.look}
	}
	return []flow.Step[*observed]{r.release, r.check, r.awaitUsers}
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, o *observed) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.Client, o.repo, finalizer)
}

// release lets the object go when nobody needs it any more.
func (r *Reconciler) release(ctx context.Context, o *observed) flow.Outcome {
	if len(o.users) > 0 {
		return flow.Next
	}
	r.Pruner.Forget(o.repo.UID)
	if outcome := flow.RemoveFinalizer(ctx, r.Client, o.repo, finalizer); !outcome.Finished() {
		return outcome
	}
	return flow.Outcome{Kind: flow.KindWait} // somebody else's finalizer
}

// check looks at the result of the last check, and has another one made when it is old. What is wrong is the outcome's
// message, so that it ends up in the condition.
func (r *Reconciler) check(_ context.Context, o *observed) flow.Outcome {
	key := fmt.Sprintf("%d/%s", o.repo.Generation, o.secret)
	repo := o.repo.DeepCopy() // the pass writes its status while the check is in progress
	work := func(ctx context.Context) verdict { return r.try(ctx, repo) }
	found, known := r.Checks.Do(o.repo, key, recheckGood, work)
	if known && !found.available() {
		found, _ = r.Checks.Do(o.repo, key, recheckBad, work)
	}
	o.checked = found
	switch {
	case !known:
		return flow.Poll(checkTimeout, v1alpha1.ReasonChecking, "The first check of the store is under way.")
	case !found.available():
		return flow.Poll(recheckBad, found.Reason, found.Message)
	}
	return flow.Next
}

// awaitUsers waits until nobody needs the repository any more. It continues working for those who do.
func (r *Reconciler) awaitUsers(_ context.Context, o *observed) flow.Outcome {
	return flow.Poll(recheckGood, o.checked.Reason, o.checked.Message)
}

// try opens the store and checks it.
func (r *Reconciler) try(ctx context.Context, repo *v1alpha1.BackupRepository) verdict {
	store, err := r.Open(ctx, r.Client, repo)
	if errors.Is(err, repostore.ErrSecret) {
		return verdict{Reason: v1alpha1.ReasonSecretNotFound, Message: sentence(secretMessage(err))}
	}
	if err != nil {
		return judge(err)
	}
	if _, wrong := sameAsBefore(ctx, store, repo); wrong != nil {
		return *wrong
	}
	var found verdict
	if repo.Spec.ReadOnly {
		found = checkReading(ctx, store)
	} else {
		found = check(ctx, store, r.Token(), r.Now())
	}
	if found.available() {
		found.Identity, _ = sameAsBefore(ctx, store, repo)
	}
	return found
}

// report says in the Ready condition what was found.
func report(o *observed, outcome flow.Outcome) {
	if outcome.Reason == "" || outcome.Reason == v1alpha1.ReasonChecking && known(o.repo) {
		return // nothing was found yet; after a restart, what the process before has found stands
	}
	reason, message := outcome.Reason, outcome.Message
	status := metav1.ConditionFalse
	switch reason {
	case v1alpha1.ReasonAvailable:
		status = metav1.ConditionTrue
	case v1alpha1.ReasonChecking, flow.ReasonError:
		status = metav1.ConditionUnknown
	}
	if reason == v1alpha1.ReasonAvailable && o.checked.Clock != "" {
		reason = v1alpha1.ReasonClockDiffers
		message += " " + o.checked.Clock + " Retention deletes nothing while they differ, because it would not know how old backups are. " +
			"Correct the clock of the node on which the backup-controller runs, or that of the object store."
	}
	if len(o.users) > 0 {
		// It continues working for who still needs it: a final backup, or the deletion of a backup's data.
		message = inUse(o.users) + " " + message
		if status == metav1.ConditionTrue {
			reason = v1alpha1.ReasonInUse
		}
	}
	reportEncryption(o)
	o.repo.Status.Identity = cmp.Or(o.repo.Status.Identity, o.checked.Identity)
	o.repo.Status.ObservedGeneration = o.repo.Generation
	flow.SetCondition(&o.repo.Status.Conditions, o.repo, v1alpha1.ConditionReady, status, reason, message)
}

// known reports that the condition speaks of this spec.
func known(repo *v1alpha1.BackupRepository) bool {
	return repo.Status.ObservedGeneration == repo.Generation && len(repo.Status.Conditions) > 0
}
