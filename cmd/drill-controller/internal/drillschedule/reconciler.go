// Package drillschedule creates FailoverDrills in rounds, when a FailoverDrillSchedule says so. The clusters of a round are recorded when it
// begins, and each gets a drill of a name that follows from them, so that a crash repeats nothing.
package drillschedule

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// Reconciler creates the FailoverDrills of FailoverDrillSchedules.
type Reconciler struct {
	manager.Dependencies
}

// New makes the reconciler of FailoverDrillSchedules.
func New(dependencies manager.Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies}
}

// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrillschedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrillschedules/status,verbs=patch
// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrillschedules/finalizers,verbs=update
// +kubebuilder:rbac:groups=howdah.dev,resources=failoverdrills,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=howdah.dev,resources=postgresclusters,verbs=get;list;watch

// SetupWithManager watches FailoverDrillSchedules and their drills.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.FailoverDrillSchedule{}).
		Owns(&v1alpha1.FailoverDrill{}).
		Complete(r)
}

// observed is everything that a pass has seen. Steps change only the status of schedule.
type observed struct {
	schedule *v1alpha1.FailoverDrillSchedule
	now      time.Time
	cron     cron.Schedule
	invalid  error
	clusters []string // that are selected, as the API server sorts them
	drills   map[string]*v1alpha1.FailoverDrill
}

type step = flow.Step[*observed]

// Reconcile looks after one FailoverDrillSchedule. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return flow.Loop[*v1alpha1.FailoverDrillSchedule, *observed]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.FailoverDrillSchedule{}, Summary: v1alpha1.ConditionReady,
		LogValues: func(s *v1alpha1.FailoverDrillSchedule) []any { return []any{"schedule", s.Name} },
		Observe:   r.observe, Plan: r.plan, Report: report, Again: again,
	}.Reconcile(ctx, req)
}

func (r *Reconciler) plan(o *observed) []step {
	if !o.schedule.DeletionTimestamp.IsZero() {
		return nil
	}
	return []step{takeResults, validate, suspend, arm, begin, r.create, conclude}
}

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, schedule *v1alpha1.FailoverDrillSchedule) (*observed, error) {
	o := &observed{schedule: schedule, now: r.Now(), drills: map[string]*v1alpha1.FailoverDrill{}}
	if schedule.Spec.Schedule != "" {
		o.cron, o.invalid = cron.Parse("spec", schedule.Spec.Schedule, schedule.Spec.TimeZone)
	} else {
		o.cron.Zone = time.UTC
	}
	selector, err := metav1.LabelSelectorAsSelector(&schedule.Spec.ClusterSelector)
	if err != nil {
		o.invalid = fmt.Errorf("spec.clusterSelector is invalid: %w", err)
		return o, nil
	}
	clusters, drills := &v1alpha1.PostgresClusterList{}, &v1alpha1.FailoverDrillList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(schedule.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return o, fmt.Errorf("list PostgresClusters: %w", err)
	}
	if err := r.Client.List(ctx, drills, client.InNamespace(schedule.Namespace), client.MatchingLabels{v1alpha1.LabelSchedule: schedule.Name}); err != nil {
		return o, fmt.Errorf("list FailoverDrills: %w", err)
	}
	for i := range clusters.Items {
		if clusters.Items[i].DeletionTimestamp.IsZero() {
			o.clusters = append(o.clusters, clusters.Items[i].Name)
		}
	}
	for i := range drills.Items {
		if metav1.IsControlledBy(&drills.Items[i], schedule) {
			o.drills[drills.Items[i].Name] = &drills.Items[i]
		}
	}
	return o, r.observeMissing(ctx, o)
}

// observeMissing asks the API server itself for drills that run and that the cache doesn't show: one that was just created isn't there yet, and
// taken for a deleted one, the next cluster would be drilled beside it.
func (r *Reconciler) observeMissing(ctx context.Context, o *observed) error {
	round := o.schedule.Status.Round
	if round == nil || round.CompletedAt != nil {
		return nil
	}
	for _, c := range round.Clusters {
		if c.FailoverDrill == "" || c.Result != "" || o.drills[c.FailoverDrill] != nil {
			continue
		}
		drill := &v1alpha1.FailoverDrill{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.schedule.Namespace, Name: c.FailoverDrill}, drill)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read FailoverDrill %s: %w", c.FailoverDrill, err)
		case err == nil && metav1.IsControlledBy(drill, o.schedule):
			o.drills[drill.Name] = drill
		}
	}
	return nil
}

// again is when the next round is due, if that is earlier than what the outcome says.
func again(o *observed, outcome flow.Outcome) time.Duration {
	next := o.schedule.Status.NextScheduleTime
	if next == nil || !o.schedule.DeletionTimestamp.IsZero() || outcome.Stopped() {
		return outcome.After
	}
	until := max(next.Sub(o.now), 0) + time.Millisecond
	if outcome.After > 0 {
		return min(outcome.After, until)
	}
	return until
}

// report sets the condition Ready. It is pure.
func report(o *observed, outcome flow.Outcome) {
	schedule := o.schedule
	if outcome.Reason == "" || !schedule.DeletionTimestamp.IsZero() {
		return
	}
	status := metav1.ConditionFalse
	switch {
	case outcome.Reason == v1alpha1.ReasonScheduled, outcome.Reason == v1alpha1.ReasonRoundRunning, outcome.Reason == v1alpha1.ReasonRoundCompleted:
		status = metav1.ConditionTrue
	case outcome.Kind == flow.KindRetry:
		status = metav1.ConditionUnknown
	}
	schedule.Status.ObservedGeneration = schedule.Generation
	flow.SetCondition(&schedule.Status.Conditions, schedule, v1alpha1.ConditionReady, status, outcome.Reason, outcome.Message)
}
