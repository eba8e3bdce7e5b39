// Package schedule makes Backups when a BackupSchedule says so. The time that is planned next stands in the status: it
// is the memory by which an outage neither loses a Backup nor makes a heap of them.
package schedule

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/cron"
	"howdah.dev/howdah/pkg/flow"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler of BackupSchedules.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Now    func() time.Time
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

// world is what one pass has seen.
type world struct {
	schedule *v1alpha1.BackupSchedule
	now      time.Time
	cron     cron.Schedule
	invalid  error
	// cluster exists.
	cluster bool
	// backups that this schedule has made of its cluster.
	backups []*v1alpha1.Backup
}

// Reconcile makes the Backup that is due, if one is.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := &v1alpha1.BackupSchedule{}
	if err := r.Client.Get(ctx, req.NamespacedName, schedule); err != nil || !schedule.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pass := flow.Begin(r.Client, r.Events, schedule, flow.Announcements{Summary: v1alpha1.ConditionReady})
	w, err := r.observe(ctx, schedule)
	if err != nil {
		return ctrl.Result{}, err // a report would say that this spec has been planned for
	}
	w.remember()
	outcome := flow.Run(ctx, w, r.validate, r.suspend, r.arm, r.fire)
	report(schedule, outcome)
	if outcome.Finished() {
		outcome = r.forget(ctx, w)
	}
	if outcome.Kind == flow.KindNext && schedule.Status.NextScheduleTime != nil {
		outcome = flow.Outcome{Kind: flow.KindWait, After: schedule.Status.NextScheduleTime.Sub(w.now) + time.Millisecond}
	}
	return pass.Commit(ctx, outcome)
}

func (r *Reconciler) observe(ctx context.Context, schedule *v1alpha1.BackupSchedule) (*world, error) {
	w := &world{schedule: schedule, now: r.Now()}
	w.cron, w.invalid = cron.Parse("spec", schedule.Spec.Schedule, schedule.Spec.TimeZone)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: schedule.Namespace, Name: schedule.Spec.Cluster.Name}, &v1alpha1.PostgresCluster{})
	if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("read the cluster: %w", err)
	}
	w.cluster = err == nil
	made := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, made, client.InNamespace(schedule.Namespace), client.MatchingLabels{v1alpha1.LabelSchedule: schedule.Name}); err != nil {
		return w, fmt.Errorf("list Backups: %w", err)
	}
	for i := range made.Items {
		if made.Items[i].Spec.Cluster == schedule.Spec.Cluster {
			w.backups = append(w.backups, &made.Items[i])
		}
	}
	return w, nil
}

func (r *Reconciler) validate(_ context.Context, w *world) flow.Outcome {
	if w.invalid == nil {
		return flow.Next
	}
	w.schedule.Status.NextScheduleTime = nil
	return flow.Stop(v1alpha1.ReasonInvalidSchedule, w.invalid.Error()+".")
}

// suspend forgets the planned time, so that what would have come due meanwhile is not made up for.
func (r *Reconciler) suspend(_ context.Context, w *world) flow.Outcome {
	if !w.schedule.Spec.Suspend {
		return flow.Next
	}
	w.schedule.Status.NextScheduleTime = nil
	return flow.Stop(v1alpha1.ReasonSuspended, "No Backup is made while spec.suspend is true.")
}

// arm plans the next time where there is none, or where the one there is was made from another spec.
func (r *Reconciler) arm(_ context.Context, w *world) flow.Outcome {
	status := &w.schedule.Status
	planned := status.NextScheduleTime
	if planned != nil && (!planned.After(w.now) || status.ObservedGeneration == w.schedule.Generation) {
		return flow.Next
	}
	next, err := w.cron.Next(w.now)
	if err != nil {
		status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	}
	w.plan(next)
	return flow.Save(v1alpha1.ReasonScheduled, "The next Backup is due at "+w.in(next)+".")
}

// fire makes the Backup of the latest time that has come, and plans the next.
func (r *Reconciler) fire(ctx context.Context, w *world) flow.Outcome {
	if w.schedule.Status.NextScheduleTime.After(w.now) {
		return flow.Next
	}
	latest, missed, next, err := w.cron.Due(w.schedule.Status.NextScheduleTime.Time, w.now)
	if err != nil {
		w.schedule.Status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	}
	made, err := r.make(ctx, w, latest)
	if err != nil {
		return flow.Retry(err)
	}
	if made.reason != v1alpha1.ReasonScheduled {
		missed++
	}
	w.schedule.Status.MissedRuns += missed
	w.plan(next)
	return flow.Save(made.reason, made.message+" The next one is due at "+w.in(next)+".")
}

func (w *world) plan(next time.Time) { w.schedule.Status.NextScheduleTime = &metav1.Time{Time: next} }

func (w *world) in(t time.Time) string { return t.In(w.cron.Zone).Format("2006-01-02 15:04 MST") }

// report sets the Ready condition when something has happened; a pass on which nothing was due leaves it.
func report(schedule *v1alpha1.BackupSchedule, outcome flow.Outcome) {
	if outcome.Finished() {
		return
	}
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
