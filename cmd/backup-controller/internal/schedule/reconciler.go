// Package schedule makes Backups when a BackupSchedule says so. The time that is planned next stands in the status: it
// is the memory by which an outage neither loses a Backup nor makes a heap of them.
package schedule

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=backupschedules/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=backups,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler of BackupSchedules.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Now    func() time.Time
}

// SetupWithManager registers the reconciler. It is woken by changes of the spec, and by the clock.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BackupSchedule{}).
		WithEventFilter(predicate.GenerationChangedPredicate{}).
		Complete(r)
}

// world is what one pass has seen.
type world struct {
	schedule *v1alpha1.BackupSchedule
	now      time.Time
	cron     cron
	invalid  error
	// cluster exists.
	cluster bool
	// backups that this schedule has made.
	backups []v1alpha1.Backup
}

// Reconcile makes the Backup that is due, if one is.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	schedule := &v1alpha1.BackupSchedule{}
	if err := r.Client.Get(ctx, req.NamespacedName, schedule); err != nil || !schedule.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pass := flow.Begin(r.Client, r.Events, schedule)
	w, err := r.observe(ctx, schedule)
	if err != nil {
		return ctrl.Result{}, err // a report would say that this spec has been planned for
	}
	outcome := flow.Run(ctx, w, r.validate, r.suspend, r.arm, r.fire)
	report(schedule, outcome)
	if outcome.Kind == flow.KindNext && schedule.Status.NextScheduleTime != nil {
		outcome = flow.Outcome{Kind: flow.KindWait, After: schedule.Status.NextScheduleTime.Sub(w.now) + time.Millisecond}
	}
	return pass.Commit(ctx, outcome)
}

func (r *Reconciler) observe(ctx context.Context, schedule *v1alpha1.BackupSchedule) (*world, error) {
	w := &world{schedule: schedule, now: r.Now()}
	w.cron, w.invalid = parse(&schedule.Spec)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: schedule.Namespace, Name: schedule.Spec.Cluster.Name}, &v1alpha1.PostgresCluster{})
	if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("read the cluster: %w", err)
	}
	w.cluster = err == nil
	made := &v1alpha1.BackupList{}
	if err := r.Client.List(ctx, made, client.InNamespace(schedule.Namespace), client.MatchingLabels{v1alpha1.LabelSchedule: schedule.Name}); err != nil {
		return w, fmt.Errorf("list Backups: %w", err)
	}
	w.backups = made.Items
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
	next, err := w.cron.next(w.now)
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
	latest, missed, next, err := w.cron.due(w.schedule.Status.NextScheduleTime.Time, w.now)
	if err != nil {
		w.schedule.Status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	}
	reason, message, err := r.make(ctx, w, latest)
	if err != nil {
		return flow.Retry(err)
	}
	if reason != v1alpha1.ReasonScheduled {
		missed++
	}
	w.schedule.Status.MissedRuns += missed
	w.plan(next)
	return flow.Save(reason, message+" The next one is due at "+w.in(next)+".")
}

// make makes the Backup for a time, as the policy allows. It may be repeated.
func (r *Reconciler) make(ctx context.Context, w *world, due time.Time) (reason, message string, err error) {
	name := backupName(w.schedule.Name, due)
	if w.made(name) == nil {
		if !w.cluster {
			return v1alpha1.ReasonClusterNotFound, fmt.Sprintf("The Backup of %s was not made: there is no PostgresCluster %s.", w.in(due), w.schedule.Spec.Cluster.Name), nil
		}
		busy := w.unfinished()
		if len(busy) > 0 && w.schedule.Spec.ConcurrencyPolicy == v1alpha1.ConcurrencyForbid {
			return v1alpha1.ReasonSkipped, fmt.Sprintf("The Backup of %s was not made, because Backup %s is not done.", w.in(due), busy[0].Name), nil
		}
		if err := r.replace(ctx, w, busy); err != nil {
			return "", "", err
		}
		if reason, message, err := r.create(ctx, w, name); reason != "" || err != nil {
			return reason, message, err
		}
	}
	w.schedule.Status.LastBackup = name
	w.schedule.Status.LastScheduleTime = &metav1.Time{Time: due}
	return v1alpha1.ReasonScheduled, fmt.Sprintf("Backup %s was made for %s.", name, w.in(due)), nil
}

// replace cancels what is not done, where the policy says so.
func (r *Reconciler) replace(ctx context.Context, w *world, busy []*v1alpha1.Backup) error {
	if w.schedule.Spec.ConcurrencyPolicy != v1alpha1.ConcurrencyReplace {
		return nil
	}
	for _, backup := range busy {
		if backup.Spec.Cancel {
			continue
		}
		changed := backup.DeepCopy()
		changed.Spec.Cancel = true
		if err := r.Client.Patch(ctx, changed, client.MergeFrom(backup)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cancel Backup %s: %w", backup.Name, err)
		}
	}
	return nil
}

// create makes the Backup. A reason comes back when it could not be made and trying again won't help.
func (r *Reconciler) create(ctx context.Context, w *world, name string) (reason, message string, err error) {
	err = r.Client.Create(ctx, newBackup(w.schedule, name))
	if err == nil {
		return "", "", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", "", fmt.Errorf("create Backup %s: %w", name, err)
	}
	there := &v1alpha1.Backup{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: w.schedule.Namespace, Name: name}, there); err != nil {
		return "", "", fmt.Errorf("read Backup %s: %w", name, err)
	}
	if there.Labels[v1alpha1.LabelSchedule] == w.schedule.Name {
		return "", "", nil
	}
	return v1alpha1.ReasonNameConflict, fmt.Sprintf("Backup %s could not be made: one of that name is there that this schedule did not make.", name), nil
}

// newBackup has no owner: deleting a schedule must not delete what it has backed up.
func newBackup(schedule *v1alpha1.BackupSchedule, name string) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: schedule.Namespace, Name: name,
			Labels: map[string]string{
				v1alpha1.LabelSchedule:  schedule.Name,
				v1alpha1.LabelCluster:   schedule.Spec.Cluster.Name,
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
			},
		},
		Spec: v1alpha1.BackupSpec{Cluster: schedule.Spec.Cluster, DeletionPolicy: schedule.Spec.DeletionPolicy},
	}
}

func (w *world) plan(next time.Time) { w.schedule.Status.NextScheduleTime = &metav1.Time{Time: next} }

func (w *world) in(t time.Time) string { return t.In(w.cron.zone).Format("2006-01-02 15:04 MST") }

func (w *world) made(name string) *v1alpha1.Backup {
	for i := range w.backups {
		if w.backups[i].Name == name {
			return &w.backups[i]
		}
	}
	return nil
}

func (w *world) unfinished() []*v1alpha1.Backup {
	var busy []*v1alpha1.Backup
	for i := range w.backups {
		if backup := &w.backups[i]; backup.Status.CompletedAt == nil && backup.DeletionTimestamp.IsZero() {
			busy = append(busy, backup)
		}
	}
	return busy
}

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
