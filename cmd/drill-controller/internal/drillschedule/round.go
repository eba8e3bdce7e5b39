package drillschedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// mostClusters of a round, which its status lists.
const mostClusters = 100

// Results of clusters that no drill says.
const (
	resultSkipped = "Skipped" // none was created
	resultDeleted = "Deleted" // somebody deleted it before it had ended
)

// takeResults takes over how the drills of the round have ended.
func takeResults(_ context.Context, o *observed) flow.Outcome {
	round := o.schedule.Status.Round
	if round == nil || round.CompletedAt != nil {
		return flow.Next
	}
	for i := range round.Clusters {
		c := &round.Clusters[i]
		if c.FailoverDrill == "" || c.Result != "" {
			continue
		}
		drill := o.drills[c.FailoverDrill]
		switch {
		case drill == nil:
			c.Result, c.CompletedAt = resultDeleted, &metav1.Time{Time: o.now}
		case drill.Status.CompletedAt != nil:
			c.Result, c.CompletedAt = resultOf(drill), drill.Status.CompletedAt
		}
	}
	return flow.Next
}

func resultOf(drill *v1alpha1.FailoverDrill) string {
	if said := meta.FindStatusCondition(drill.Status.Conditions, v1alpha1.ConditionSucceeded); said != nil {
		return said.Reason
	}
	return v1alpha1.ReasonCompleted
}

func validate(_ context.Context, o *observed) flow.Outcome {
	if o.invalid == nil {
		return flow.Next
	}
	o.schedule.Status.NextScheduleTime = nil
	return flow.Stop(v1alpha1.ReasonInvalidSchedule, o.invalid.Error()+".")
}

// suspend forgets the planned time and what is left of the round, so that what would have come due meanwhile is not made up for.
func suspend(_ context.Context, o *observed) flow.Outcome {
	if !o.schedule.Spec.Suspend {
		return flow.Next
	}
	o.schedule.Status.NextScheduleTime = nil
	if round := o.schedule.Status.Round; round != nil && round.CompletedAt == nil {
		skipRest(round)
		o.complete()
	}
	return flow.Stop(v1alpha1.ReasonSuspended, "No FailoverDrill is created while spec.suspend is true.")
}

// arm plans the next round where none is planned, where it was planned from another spec, and where it lies beyond the next one: the clock was wrong
// when it was planned, and no round would begin until then.
func arm(_ context.Context, o *observed) flow.Outcome {
	status, planned := &o.schedule.Status, o.schedule.Status.NextScheduleTime
	same := planned != nil && status.ObservedGeneration == o.schedule.Generation
	switch {
	case o.schedule.Spec.Schedule == "" && status.LastScheduleTime == nil && planned == nil:
		status.NextScheduleTime = &o.schedule.CreationTimestamp
		return flow.Save(v1alpha1.ReasonScheduled, "The round is due now.")
	case o.schedule.Spec.Schedule == "" && status.LastScheduleTime != nil:
		status.NextScheduleTime = nil
		return flow.Next
	case planned != nil && !planned.After(o.now), same && o.schedule.Spec.Schedule == "":
		return flow.Next
	}
	next, err := o.cron.Next(o.now)
	switch {
	case err != nil:
		status.NextScheduleTime = nil
		return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
	case same && !planned.After(next):
		return flow.Next
	}
	status.NextScheduleTime = &metav1.Time{Time: next}
	return flow.Save(v1alpha1.ReasonScheduled, "The next round is due at "+o.in(next)+".")
}

// begin records the clusters of the round that has come due, and plans the next one.
func begin(_ context.Context, o *observed) flow.Outcome {
	status, spec := &o.schedule.Status, &o.schedule.Spec
	if status.NextScheduleTime == nil || status.NextScheduleTime.After(o.now) {
		return flow.Next
	}
	due, missed, next := status.NextScheduleTime.Time, int64(0), (*metav1.Time)(nil)
	if spec.Schedule != "" {
		latest, passed, following, err := o.cron.Due(due, o.now)
		if err != nil {
			status.NextScheduleTime = nil
			return flow.Stop(v1alpha1.ReasonInvalidSchedule, err.Error()+".")
		}
		due, missed, next = latest, passed, &metav1.Time{Time: following}
	}
	status.NextScheduleTime, status.LastScheduleTime = next, &metav1.Time{Time: due}
	reason, why := o.refuse(due)
	if reason != "" {
		status.MissedRounds += missed + 1
		return flow.Save(reason, fmt.Sprintf("The round of %s did not begin: %s", o.in(due), why))
	}
	status.MissedRounds += missed
	status.Round = &v1alpha1.FailoverDrillRound{Due: metav1.Time{Time: due}}
	for _, name := range slices.Sorted(slices.Values(o.clusters)) {
		status.Round.Clusters = append(status.Round.Clusters, v1alpha1.DrilledCluster{Name: name})
	}
	return flow.Save(v1alpha1.ReasonRoundRunning, fmt.Sprintf("A round of %d clusters has begun.", len(o.clusters)))
}

// refuse says why a round does not begin; no reason: it does.
func (o *observed) refuse(due time.Time) (reason, why string) {
	spec, round := &o.schedule.Spec, o.schedule.Status.Round
	late := o.now.Sub(due)
	switch {
	case late > time.Duration(spec.StartingDeadlineSeconds)*time.Second:
		return v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("it was noticed %s late, and spec.startingDeadlineSeconds is %d.", late.Round(time.Second), spec.StartingDeadlineSeconds)
	case round != nil && round.CompletedAt == nil:
		return v1alpha1.ReasonSkipped, fmt.Sprintf("the round of %s has not ended.", o.in(round.Due.Time))
	case len(o.clusters) == 0:
		return v1alpha1.ReasonNoClusters, "spec.clusterSelector selects no PostgresCluster. Label those that are to be drilled."
	case len(o.clusters) > mostClusters:
		return v1alpha1.ReasonNoClusters, fmt.Sprintf("spec.clusterSelector selects %d PostgresClusters, and a round has %d at most. Use several FailoverDrillSchedules.", len(o.clusters), mostClusters)
	}
	return "", ""
}

// create creates the drills of the next clusters, one in a pass, as far as spec.maxConcurrent lets it. A drill that has failed ends the round.
func (r *Reconciler) create(ctx context.Context, o *observed) flow.Outcome {
	round := o.schedule.Status.Round
	if round == nil || round.CompletedAt != nil {
		return flow.Next
	}
	if o.failed() != nil || o.late() {
		skipRest(round)
	}
	running, next := o.progress()
	if next == nil || running >= int(max(o.schedule.Spec.MaxConcurrent, 1)) {
		return flow.Next
	}
	drill := newDrill(o.schedule, next.Name)
	err := r.Client.Create(ctx, drill)
	if apierrors.IsAlreadyExists(err) {
		there := &v1alpha1.FailoverDrill{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(drill), there); err != nil {
			return flow.Retry(fmt.Errorf("read FailoverDrill %s: %w", drill.Name, err))
		}
		if !metav1.IsControlledBy(there, o.schedule) {
			next.Result = v1alpha1.ReasonNameConflict
			return flow.Save(v1alpha1.ReasonRoundRunning, fmt.Sprintf("FailoverDrill %s belongs to somebody else, so PostgresCluster %s is not drilled.", drill.Name, next.Name))
		}
	} else if err != nil {
		return flow.Retry(fmt.Errorf("create FailoverDrill %s: %w", drill.Name, err))
	}
	next.FailoverDrill = drill.Name
	return flow.Save(v1alpha1.ReasonRoundRunning, fmt.Sprintf("FailoverDrill %s was created.", drill.Name))
}

// skipRest has no drill created for the clusters of a round that have none yet.
func skipRest(round *v1alpha1.FailoverDrillRound) {
	for i := range round.Clusters {
		if c := &round.Clusters[i]; c.FailoverDrill == "" && c.Result == "" {
			c.Result = resultSkipped
		}
	}
}

// late: nothing was done for the round for so long that the rest of it would come as a surprise.
func (o *observed) late() bool {
	round := o.schedule.Status.Round
	last := round.Due.Time
	for _, c := range round.Clusters {
		switch {
		case c.FailoverDrill != "" && c.Result == "":
			return false
		case c.CompletedAt != nil && c.CompletedAt.After(last):
			last = c.CompletedAt.Time
		}
	}
	return o.now.Sub(last) > time.Duration(o.schedule.Spec.StartingDeadlineSeconds)*time.Second
}

// complete ends the round once nothing is left of it.
func (o *observed) complete() {
	round := o.schedule.Status.Round
	if running, next := o.progress(); running == 0 && next == nil && round.CompletedAt == nil {
		round.CompletedAt = &metav1.Time{Time: o.now}
	}
}

// progress is how many drills run, and the next cluster that has none; nil: there is none.
func (o *observed) progress() (running int, next *v1alpha1.DrilledCluster) {
	clusters := o.schedule.Status.Round.Clusters
	for i := range clusters {
		switch c := &clusters[i]; {
		case c.Result != "":
		case c.FailoverDrill != "":
			running++
		case next == nil:
			next = c
		}
	}
	return running, next
}

// failed is a cluster that was worse off than its limits allow, or of which that is not known; nil: there is none.
func (o *observed) failed() *v1alpha1.DrilledCluster {
	clusters := o.schedule.Status.Round.Clusters
	i := slices.IndexFunc(clusters, func(c v1alpha1.DrilledCluster) bool {
		return slices.Contains([]string{v1alpha1.ReasonLimitExceeded, v1alpha1.ReasonNotWhole, v1alpha1.ReasonWriterFailed}, c.Result)
	})
	if i < 0 {
		return nil
	}
	return &clusters[i]
}

// conclude says how the round goes, or how it went.
func conclude(_ context.Context, o *observed) flow.Outcome {
	status := &o.schedule.Status
	round := status.Round
	if round == nil {
		return flow.Next
	}
	running, next := o.progress()
	if running > 0 || next != nil {
		return flow.Wait(v1alpha1.ReasonRoundRunning, fmt.Sprintf("%d of %d clusters of the round of %s are done.", o.done(), len(round.Clusters), o.in(round.Due.Time)))
	}
	o.complete()
	following := ""
	if status.NextScheduleTime != nil {
		following = " The next one is due at " + o.in(status.NextScheduleTime.Time) + "."
	}
	if failed := o.failed(); failed != nil {
		return flow.Wait(v1alpha1.ReasonRoundStopped, fmt.Sprintf("The round of %s was ended, because FailoverDrill %s of PostgresCluster %s has failed (%s).%s",
			o.in(round.Due.Time), failed.FailoverDrill, failed.Name, failed.Result, following))
	}
	if !status.LastScheduleTime.Equal(&round.Due) { // the last one did not begin, and that is what the condition says
		return flow.Next
	}
	reason := v1alpha1.ReasonScheduled
	if status.NextScheduleTime == nil {
		reason = v1alpha1.ReasonRoundCompleted
	}
	return flow.Wait(reason, fmt.Sprintf("The round of %s has ended: %d of %d clusters were drilled within their limits.%s%s",
		o.in(round.Due.Time), o.well(), len(round.Clusters), o.skipped(), following))
}

func (o *observed) done() int {
	return o.count(func(c v1alpha1.DrilledCluster) bool { return c.Result != "" })
}

func (o *observed) well() int {
	return o.count(func(c v1alpha1.DrilledCluster) bool { return c.Result == v1alpha1.ReasonCompleted })
}

// skipped says how many clusters were left out, and why; empty: none.
func (o *observed) skipped() string {
	n := o.count(func(c v1alpha1.DrilledCluster) bool { return c.Result == resultSkipped })
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %d were skipped, because the schedule was suspended, or nothing was done for longer than spec.startingDeadlineSeconds (%d).",
		n, o.schedule.Spec.StartingDeadlineSeconds)
}

func (o *observed) count(counts func(v1alpha1.DrilledCluster) bool) (n int) {
	for _, c := range o.schedule.Status.Round.Clusters {
		if counts(c) {
			n++
		}
	}
	return n
}

func (o *observed) in(t time.Time) string { return t.In(o.cron.Zone).Format("2006-01-02 15:04 MST") }

// drillName names the drill of a cluster in the round that was due at a time. With the schedule's 28 characters at most it fits a
// FailoverDrill's 48.
func drillName(schedule string, due time.Time, cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return fmt.Sprintf("%s-%s-%s", schedule, due.UTC().Format("0601021504"), hex.EncodeToString(sum[:4]))
}

// newDrill is owned by its schedule: who deletes that ends its drills.
func newDrill(schedule *v1alpha1.FailoverDrillSchedule, cluster string) *v1alpha1.FailoverDrill {
	template := schedule.Spec.Template.DeepCopy()
	return &v1alpha1.FailoverDrill{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: schedule.Namespace, Name: drillName(schedule.Name, schedule.Status.Round.Due.Time, cluster),
			Labels: map[string]string{
				v1alpha1.LabelSchedule: schedule.Name, v1alpha1.LabelCluster: cluster, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(schedule, v1alpha1.GroupVersion.WithKind(v1alpha1.KindFailoverDrillSchedule))},
		},
		Spec: v1alpha1.FailoverDrillSpec{
			Cluster: v1alpha1.LocalReference{Name: cluster}, Fault: template.Fault, Limits: template.Limits, StartWithin: template.StartWithin,
			Timeout: template.Timeout, MaxPerWeek: max(template.MaxPerWeek, 1), TTLSecondsAfterFinished: ptr.To(template.TTLSecondsAfterFinished),
		},
	}
}
