package schedule

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
)

// A controller whose clock is ahead for a moment plans a time that nobody lives to see.
func TestATimeBeyondTheNextOneIsPlannedAnew(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	next, years := time.Date(2026, 7, 2, 3, 0, 0, 0, time.UTC), time.Date(2099, 1, 1, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		planned    time.Time
		generation int64 // for which it was planned
		jitter     int64
		anew       bool
	}{
		"as planned":                   {next, 1, 0, false},
		"by another spec":              {next.Add(-time.Hour), 0, 0, true},
		"it has come":                  {now.Add(-time.Hour), 0, 0, false},
		"the clock was ahead":          {years, 1, 0, true},
		"the clock was ahead, delayed": {years, 1, 3600, true},
	} {
		schedule := &v1alpha1.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Generation: 1, UID: "u"}}
		schedule.Spec.Schedule, schedule.Spec.JitterSeconds = "0 3 * * *", c.jitter
		schedule.Status.ObservedGeneration, schedule.Status.NextScheduleTime = c.generation, &metav1.Time{Time: c.planned}
		parsed, err := cron.Parse("spec", schedule.Spec.Schedule, "")
		if err != nil {
			t.Fatal(err)
		}
		outcome := (&Reconciler{}).arm(t.Context(), &observed{schedule: schedule, now: now, cron: parsed})
		want := c.planned
		if c.anew {
			want = next.Add(jitter(schedule))
		}
		if got := schedule.Status.NextScheduleTime.Time; !got.Equal(want) || outcome.Finished() == c.anew {
			t.Errorf("%s: %s, %+v", name, got, outcome)
		}
	}
}
