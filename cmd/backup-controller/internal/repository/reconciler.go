// Package repository looks after BackupRepositories: it checks that their store can do what is needed, says what it
// can't, and keeps one that is still needed from being deleted.
package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/retention"
	"howdah.dev/howdah/pkg/background"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repository"
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

// Opener opens the store of a repository.
type Opener func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error)

// Reconciler of BackupRepositories.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Open   Opener
	Checks *background.Runner[verdict]
	// Keeper looks repositories through, and Surveys does so in the background.
	Keeper  *retention.Keeper
	Surveys *background.Runner[retention.Result]
	Now     func() time.Time
	// Token makes a random name under which a check works.
	Token func() string
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
		WatchesRawSource(r.Surveys.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// world is what one pass has seen.
type world struct {
	repo *v1alpha1.BackupRepository
	// secret identifies the content of the credentials and keys, so that a change of them is a new check.
	secret string
	// encryption is what the last check has found of it.
	encryption *v1alpha1.EncryptionStatus
	users      []string
	// mark changes with the Backups in the repository.
	mark string
}

// Reconcile checks one BackupRepository, and lets it go when nobody needs it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	repo := &v1alpha1.BackupRepository{}
	if err := r.Client.Get(ctx, req.NamespacedName, repo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pass := flow.Begin(r.Client, r.Events, repo, flow.Announcements{Summary: v1alpha1.ConditionReady})
	w, err := r.observe(ctx, repo)
	outcome := flow.Retry(err)
	if err == nil {
		outcome = flow.Run(ctx, w, plan(r, w)...)
	}
	report(w, outcome)
	if again := r.survey(w, outcome); again > 0 && again < outcome.After {
		outcome.After = again
	}
	return pass.Commit(ctx, outcome)
}

func plan(r *Reconciler, w *world) []flow.Step[*world] {
	if w.repo.DeletionTimestamp.IsZero() {
		return []flow.Step[*world]{r.ensureFinalizer, r.check}
	}
	return []flow.Step[*world]{r.release, r.check}
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.EnsureFinalizer(ctx, r.Client, w.repo, finalizer)
}

// release lets the object go when nobody needs it any more.
func (r *Reconciler) release(ctx context.Context, w *world) flow.Outcome {
	if len(w.users) > 0 {
		return flow.Next
	}
	r.Keeper.Forget(w.repo.UID)
	if outcome := flow.RemoveFinalizer(ctx, r.Client, w.repo, finalizer); !outcome.Finished() {
		return outcome
	}
	return flow.Outcome{Kind: flow.KindWait} // somebody else's finalizer
}

// check looks at the result of the last check, and has another one made when it is old. The outcome's message is the
// verdict, so that whatever is found ends up in the condition.
func (r *Reconciler) check(_ context.Context, w *world) flow.Outcome {
	key := fmt.Sprintf("%d/%s", w.repo.Generation, w.secret)
	work := func(ctx context.Context) verdict { return r.try(ctx, w.repo) }
	found, known := r.Checks.Do(w.repo, key, recheckGood, work)
	if known && !found.available() {
		found, _ = r.Checks.Do(w.repo, key, recheckBad, work)
	}
	w.encryption = found.Encryption
	switch {
	case !known:
		return flow.Poll(checkTimeout, v1alpha1.ReasonChecking, "The first check of the store is under way.")
	case !found.available():
		return flow.Poll(recheckBad, found.Reason, found.Message)
	}
	return flow.Poll(recheckGood, found.Reason, found.Message)
}

// try opens the store and checks it.
func (r *Reconciler) try(ctx context.Context, repo *v1alpha1.BackupRepository) verdict {
	store, err := r.Open(ctx, r.Client, repo)
	if errors.Is(err, repository.ErrSecret) {
		return verdict{Reason: v1alpha1.ReasonSecretNotFound, Message: sentence(secretMessage(err))}
	}
	if err != nil {
		return judge(err)
	}
	if repo.Spec.ReadOnly {
		return checkReading(ctx, store)
	}
	return check(ctx, store, r.Token(), r.Now())
}

// report says in the Ready condition what was found.
func report(w *world, outcome flow.Outcome) {
	if outcome.Reason == "" || outcome.Reason == v1alpha1.ReasonChecking && known(w.repo) {
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
	if len(w.users) > 0 {
		// It goes on working for who still needs it: a final backup, or the deletion of a backup's data.
		message = inUse(w.users) + " " + message
		if status == metav1.ConditionTrue {
			reason = v1alpha1.ReasonInUse
		}
	}
	reportEncryption(w)
	w.repo.Status.ObservedGeneration = w.repo.Generation
	flow.SetCondition(&w.repo.Status.Conditions, w.repo, v1alpha1.ConditionReady, status, reason, message)
}

// known reports that the condition speaks of this spec.
func known(repo *v1alpha1.BackupRepository) bool {
	return repo.Status.ObservedGeneration == repo.Generation && len(repo.Status.Conditions) > 0
}
