package drill

import (
	"context"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/clustercopy"
	"howdah.dev/howdah/pkg/cron"
	"howdah.dev/howdah/pkg/workload"
)

// observed is what one pass has seen.
type observed struct {
	repo *v1alpha1.BackupRepository
	now  time.Time
	// invalid says what is wrong with the schedule.
	invalid error
	// copy is what exists of the drill that is under way.
	copy clustercopy.Seen
	job  workload.State
}

func (o *observed) underWay() *v1alpha1.DrillRun {
	if o.repo.Status.Drill == nil {
		return nil
	}
	return o.repo.Status.Drill.UnderWay
}

// leaving: no drill is wanted any more.
func (o *observed) leaving() bool {
	return o.repo.Spec.Drill == nil || !o.repo.DeletionTimestamp.IsZero()
}

// observe does every read of a pass, and moves the schedule on.
func (r *Reconciler) observe(ctx context.Context, repo *v1alpha1.BackupRepository) (*observed, error) {
	o := &observed{repo: repo, now: r.Now()}
	o.turn()
	run := o.underWay()
	if run == nil {
		return o, nil
	}
	var err error
	if o.job, err = workload.Observe(ctx, r.Client, r.Live, repo, jobName(run)); err != nil {
		return o, err
	}
	o.job.Explain(ctx, r.Live, repo.Namespace)
	o.copy, err = clustercopy.Observe(ctx, r.Live, repo, run.Name, run.RestoreUID)
	return o, err
}

// turn moves the schedule on. Times that come while drills are suspended don't count.
func (o *observed) turn() {
	spec := o.repo.Spec.Drill
	if spec == nil {
		return
	}
	if o.repo.Status.Drill == nil {
		o.repo.Status.Drill = &v1alpha1.DrillStatus{}
	}
	status := o.repo.Status.Drill
	before := cron.Times{Last: status.LastScheduleTime, Next: status.NextScheduleTime}
	if spec.Suspend {
		before.Next = nil
	}
	var times cron.Times
	times, o.invalid = cron.Turn("spec.drill", spec.Schedule, spec.TimeZone, before, o.now)
	status.LastScheduleTime, status.NextScheduleTime = times.Last, times.Next
	if spec.Suspend {
		status.NextScheduleTime = nil
	}
}

// wanted: a time of the schedule has come since the last drill ended, or there is another token.
func (o *observed) wanted() bool {
	if o.leaving() {
		return false
	}
	status := o.repo.Status.Drill
	if token := o.repo.Spec.Drill.Token; token != "" && token != status.Token {
		return true
	}
	come, last := status.LastScheduleTime, status.Last
	return come != nil && !o.repo.Spec.Drill.Suspend && (last == nil || last.CompletedAt.Before(come))
}

// deadline of the drill that is under way.
func (o *observed) deadline() time.Time {
	timeout := int32(0)
	if o.repo.Spec.Drill != nil {
		timeout = o.repo.Spec.Drill.TimeoutSeconds
	}
	return o.underWay().StartedAt.Add(time.Duration(timeout) * time.Second)
}
