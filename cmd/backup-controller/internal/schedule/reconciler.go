// Package schedule makes Backups when a BackupSchedule says so. The time that is planned next stands in the status: it
// is the memory by which an outage neither loses a Backup nor makes a heap of them.
package schedule

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler of BackupSchedules.
type Reconciler struct {
	manager.Dependencies
}

// New makes the reconciler of BackupSchedules.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies}
}

// SetupWithManager registers the reconciler. It is woken by changes of the spec, by the clock, and by the ends of the
// Backups that it has made.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BackupSchedule{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(maker), builder.WithPredicates(ends())).
		Complete(r)
}

// maker is the schedule that has made a Backup.
func maker(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[v1alpha1.LabelSchedule]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// ends lets only those changes of a Backup through by which it ends, or by which one that has ended is held or not.
func ends() predicate.Predicate {
	state := func(object client.Object) (ended, held bool) {
		backup := object.(*v1alpha1.Backup)
		return backup.Status.CompletedAt != nil, backup.Spec.Hold
	}
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			endedBefore, heldBefore := state(e.ObjectOld)
			ended, held := state(e.ObjectNew)
			return ended && (!endedBefore || held != heldBefore)
		},
	}
}

// observed is what one pass has seen.
type observed struct {
	schedule *v1alpha1.BackupSchedule
	now      time.Time
	cron     cron.Schedule
	invalid  error
	// cluster exists.
	cluster bool
	// backups that this schedule has made of its cluster.
	backups []*v1alpha1.Backup
	// seen: all was read.
	seen bool
}

// Reconcile makes the Backup that is due, if one is. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.BackupSchedule, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.BackupSchedule{}, Summary: v1alpha1.ConditionReady,
		LogValues: func(s *v1alpha1.BackupSchedule) []any { return []any{"cluster", s.Spec.Cluster.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report, Again: again,
	}.Reconcile(ctx, req)
}

func (r *Reconciler) plan(o *observed) []flow.Step[*observed] {
	if !o.schedule.DeletionTimestamp.IsZero() {
		return nil
	}
	return []flow.Step[*observed]{r.remember, r.validate, r.suspend, r.arm, r.fire, r.forget}
}

// again is when the next Backup is due.
func again(o *observed, outcome flow.Outcome) time.Duration {
	next := o.schedule.Status.NextScheduleTime
	if !outcome.Finished() || next == nil || !o.schedule.DeletionTimestamp.IsZero() {
		return outcome.After
	}
	return next.Sub(o.now) + time.Millisecond
}

func (r *Reconciler) observe(ctx context.Context, schedule *v1alpha1.BackupSchedule) (*observed, error) {
	o := &observed{schedule: schedule, now: r.Now()}
	o.cron, o.invalid = cron.Parse("spec", schedule.Spec.Schedule, schedule.Spec.TimeZone)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: schedule.Namespace, Name: schedule.Spec.Cluster.Name}, &v1alpha1.PostgresCluster{})
	if client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("read the cluster: %w", err)
	}
	o.cluster = err == nil
	made := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, made, client.InNamespace(schedule.Namespace), client.MatchingLabels{v1alpha1.LabelSchedule: schedule.Name}); err != nil {
		return o, fmt.Errorf("list Backups: %w", err)
	}
	manager.SortByName(made.Items)
	for i := range made.Items {
		if made.Items[i].Spec.Cluster == schedule.Spec.Cluster {
			o.backups = append(o.backups, &made.Items[i])
		}
	}
	o.seen = true
	return o, nil
}

func (r *Reconciler) validate(_ context.Context, o *observed) flow.Outcome {
	if o.invalid == nil {
		return flow.Next
	}
	o.schedule.Status.NextScheduleTime = nil
	return flow.Stop(v1alpha1.ReasonInvalidSchedule, o.invalid.Error()+".")
}

// suspend forgets the planned time, so that what would have come due meanwhile is not made up for.
func (r *Reconciler) suspend(_ context.Context, o *observed) flow.Outcome {
	if !o.schedule.Spec.Suspend {
		return flow.Next
	}
	o.schedule.Status.NextScheduleTime = nil
	return flow.Stop(v1alpha1.ReasonSuspended, "No Backup is created while spec.suspend is true.")
}

// arm plans the next time where there is none, where the one there is was made from another spec, and where it lies beyond the next one: the clock
// was wrong when it was planned, and no Backup would be made until then.
func (r *Reconciler) arm(_ context.Context, o *observed) flow.Outcome {
	status := &o.schedule.Status
	planned := status.NextScheduleTime
	if planned != nil && !planned.After(o.now) {
		return flow.Next
	}
	next, err := o.next()
	if err != nil {
		status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	}
	if planned != nil && status.ObservedGeneration == o.schedule.Generation && !planned.After(next) {
		return flow.Next
	}
	o.plan(next)
	return flow.Save(v1alpha1.ReasonScheduled, "The next Backup is due at "+o.in(next)+".")
}

// fire makes the Backup of the latest time that has come, and plans the next.
func (r *Reconciler) fire(ctx context.Context, o *observed) flow.Outcome {
	if o.schedule.Status.NextScheduleTime.After(o.now) {
		return flow.Next
	}
	latest, missed, next, err := o.due()
	if err != nil {
		o.schedule.Status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	}
	made, err := r.make(ctx, o, latest)
	if err != nil {
		return flow.Retry(err)
	}
	if made.reason != v1alpha1.ReasonScheduled {
		missed++
	}
	o.schedule.Status.MissedRuns += missed
	o.plan(next)
	return flow.Save(made.reason, made.message+" The next one is due at "+o.in(next)+".")
}

func (o *observed) plan(next time.Time) {
	o.schedule.Status.NextScheduleTime = &metav1.Time{Time: next}
}

func (o *observed) in(t time.Time) string { return t.In(o.cron.Zone).Format("2006-01-02 15:04 MST") }

// report sets the Ready condition when something has happened; a pass on which nothing was due leaves it. So does one that
// could not read everything: the report would say that this spec has been planned for.
func report(o *observed, outcome flow.Outcome) {
	if outcome.Reason == "" || !o.seen {
		return
	}
	schedule := o.schedule
	status := metav1.ConditionFalse
	switch {
	case outcome.Reason == v1alpha1.ReasonScheduled:
		status = metav1.ConditionTrue
	case outcome.Kind == flow.KindRetry:
		status = metav1.ConditionUnknown
	}
	schedule.Status.ObservedGeneration = schedule.Generation
	flow.SetCondition(&schedule.Status.Conditions, schedule, v1alpha1.ConditionReady, status, outcome.Reason, outcome.Message)
}
