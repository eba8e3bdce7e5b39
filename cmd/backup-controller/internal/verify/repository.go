package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backuprepositories/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch

// mostNamed is how many wrong backups are named.
const mostNamed = 20

// Repositories says on each BackupRepository how its backups stand, and when the next time of its schedule comes. Whether
// the repository works is not its matter.
type Repositories struct {
	manager.Dependencies
}

// NewRepositories makes the reconciler of what is verified in each repository.
func NewRepositories(dependencies manager.Dependencies) *Repositories {
	return &Repositories{Dependencies: dependencies}
}

// SetupWithManager registers the reconciler. It is woken by the repository, by verifications that end, and by the clock.
func (r *Repositories) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("repository-verification").
		For(&v1alpha1.BackupRepository{}).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(repositoryOf), builder.WithPredicates(matters())).
		Complete(r)
}

func repositoryOf(_ context.Context, object client.Object) []reconcile.Request {
	plan := object.(*v1alpha1.Backup).Status.Plan
	if plan == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: plan.Repository}}}
}

// counted is what one pass has observed of a repository.
type counted struct {
	repo *v1alpha1.BackupRepository
	now  time.Time
	// planned is the schedule as it continues, and invalid what is wrong with it, as a sentence.
	planned v1alpha1.RepositoryVerification
	invalid error
	tally   tally
}

// Reconcile counts the backups of one repository, and moves its schedule on. There is nothing to do beside that.
func (r *Repositories) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.BackupRepository, *counted]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.BackupRepository{}, Summary: v1alpha1.ConditionReady,
		Observe: r.observe, Plan: func(*counted) []flow.Step[*counted] { return nil }, Report: reportCounted, Again: again,
	}.Reconcile(ctx, req)
}

func (r *Repositories) observe(ctx context.Context, repo *v1alpha1.BackupRepository) (*counted, error) {
	c := &counted{repo: repo, now: r.Now()}
	backups := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, backups, client.InNamespace(repo.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return c, fmt.Errorf("list Backups: %w", err)
	}
	c.planned, c.invalid = plan(repo, c.now)
	c.tally = count(repo.Name, backups.Items)
	return c, nil
}

func reportCounted(c *counted, outcome flow.Outcome) {
	if outcome.Err != nil {
		return // nothing was counted
	}
	judge(c.repo, c.planned, c.tally, c.invalid)
}

// again is when the next time of the schedule comes.
func again(c *counted, _ flow.Outcome) time.Duration {
	if c.planned.NextScheduleTime == nil {
		return 0
	}
	return c.planned.NextScheduleTime.Sub(c.now) + time.Millisecond
}

// plan moves the schedule on: a backup is verified once for all times that have passed. Its error is a sentence for a
// person.
func plan(repo *v1alpha1.BackupRepository, now time.Time) (v1alpha1.RepositoryVerification, error) {
	spec, before := repo.Spec.Verify, cron.Times{}
	if spec == nil {
		return v1alpha1.RepositoryVerification{}, nil
	}
	if status := repo.Status.Verification; status != nil {
		before = cron.Times{Last: status.LastScheduleTime, Next: status.NextScheduleTime}
	}
	times, err := cron.Turn("spec.verify", spec.Schedule, spec.TimeZone, before, now)
	return v1alpha1.RepositoryVerification{LastScheduleTime: times.Last, NextScheduleTime: times.Next}, err
}

// tally is how the backups of a repository stand.
type tally struct {
	backups, verified int32
	oldest            *metav1.Time
	wrong             []string
	// worst is a sentence on the first of them.
	worst string
}

func count(repository string, all []v1alpha1.Backup) tally {
	t := tally{}
	never := false
	for i := range all {
		backup := &all[i]
		if !succeeded(backup) || backup.Status.Plan.Repository != repository {
			continue
		}
		t.backups++
		at := backup.Status.VerifiedAt
		never = never || at == nil
		if at != nil && (t.oldest == nil || at.Before(t.oldest)) {
			t.oldest = at.DeepCopy() // the Backup is shared with the cache
		}
		switch statusOf(backup) {
		case metav1.ConditionTrue:
			t.verified++
		case metav1.ConditionFalse:
			if len(t.wrong) == 0 || backup.Name < slices.Min(t.wrong) {
				t.worst = damage(backup)
			}
			t.wrong = append(t.wrong, backup.Name)
		}
	}
	slices.Sort(t.wrong) // a cache lists in another order each time
	if never {
		t.oldest = nil
	}
	return t
}

// damage of a backup, in a sentence without its full stop.
func damage(backup *v1alpha1.Backup) string {
	text := fmt.Sprintf("Backup %s is damaged", backup.Name)
	if wrong := backup.Status.Verification.Wrong; len(wrong) > 0 {
		text += ": " + name(wrong[0])
	}
	return text
}

// judge writes what was counted, and the Verified condition. A repository of which nothing was ever verified and nothing
// shall be has neither.
func judge(repo *v1alpha1.BackupRepository, planned v1alpha1.RepositoryVerification, t tally, invalid error) {
	status := &repo.Status
	if repo.Spec.Verify == nil && t.verified == 0 && len(t.wrong) == 0 {
		status.Verification = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionVerified)
		return
	}
	planned.Backups, planned.VerifiedBackups, planned.OldestVerifiedAt = t.backups, t.verified, t.oldest
	planned.WrongBackups = t.wrong[:min(len(t.wrong), mostNamed)]
	status.Verification = &planned
	set := func(to metav1.ConditionStatus, reason, message string) {
		flow.SetCondition(&status.Conditions, repo, v1alpha1.ConditionVerified, to, reason, message)
	}
	switch {
	case len(t.wrong) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt, fmt.Sprintf("%d of %d backups have missing or damaged objects. %s.", len(t.wrong), t.backups, t.worst))
	case invalid != nil:
		set(metav1.ConditionUnknown, v1alpha1.ReasonInvalidSchedule, invalid.Error()+".")
	case t.verified < t.backups:
		set(metav1.ConditionUnknown, v1alpha1.ReasonNotVerifiedYet, fmt.Sprintf("%d of %d backups were verified, and no damage was found.", t.verified, t.backups))
	default:
		set(metav1.ConditionTrue, v1alpha1.ReasonVerified, "Every backup was verified, and no damage was found.")
	}
}
