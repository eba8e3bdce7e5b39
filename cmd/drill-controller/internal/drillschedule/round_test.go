package drillschedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
	"howdah.dev/howdah/pkg/flow"
)

var noon = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(after)} }

// daily is a schedule of every noon, which is due, with two clusters.
func daily(changes ...func(*observed)) *observed {
	o := &observed{now: noon.Add(time.Second), schedule: &v1alpha1.FailoverDrillSchedule{}, clusters: []string{"b", "a"}, drills: map[string]*v1alpha1.FailoverDrill{}}
	o.schedule.Name, o.schedule.CreationTimestamp = "daily", *at(-time.Hour)
	o.schedule.Spec = v1alpha1.FailoverDrillScheduleSpec{Schedule: "0 12 * * *", StartingDeadlineSeconds: 600, MaxConcurrent: 1}
	o.schedule.Status.NextScheduleTime = at(0)
	o.cron, o.invalid = cron.Parse("spec", o.schedule.Spec.Schedule, "")
	for _, change := range changes {
		change(o)
	}
	return o
}

// round is one whose clusters have these results; "…" is a drill that runs, and empty one that was not created.
func round(results ...string) func(*observed) {
	return func(o *observed) {
		o.schedule.Status.NextScheduleTime, o.schedule.Status.LastScheduleTime = at(24*time.Hour), at(0)
		o.schedule.Status.Round = &v1alpha1.FailoverDrillRound{Due: *at(0)}
		for i, result := range results {
			c := v1alpha1.DrilledCluster{Name: fmt.Sprint("c", i), FailoverDrill: fmt.Sprint("d", i), Result: result}
			switch result {
			case "…":
				c.Result = ""
			case "":
				c.FailoverDrill = ""
			}
			o.schedule.Status.Round.Clusters = append(o.schedule.Status.Round.Clusters, c)
		}
	}
}

func TestARoundBeginsWhenItIsDueOrSaysWhyNot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed)
		reason string // empty: nothing is due
		missed int64
		says   string
	}{
		"it is due":        {func(*observed) {}, v1alpha1.ReasonRoundRunning, 0, "A round of 2 clusters"},
		"it is not due":    {func(o *observed) { o.now = noon.Add(-time.Minute) }, "", 0, ""},
		"a day was missed": {func(o *observed) { o.now = noon.Add(24*time.Hour + time.Second) }, v1alpha1.ReasonRoundRunning, 1, ""},
		"it is late":       {func(o *observed) { o.now = noon.Add(time.Hour) }, v1alpha1.ReasonDeadlineExceeded, 1, "noticed 1h0m0s late"},
		"the one before has not ended": {func(o *observed) {
			o.schedule.Status.Round = &v1alpha1.FailoverDrillRound{Due: *at(-24 * time.Hour)}
		}, v1alpha1.ReasonSkipped, 1, "has not ended"},
		"no cluster is selected": {func(o *observed) { o.clusters = nil }, v1alpha1.ReasonNoClusters, 1, "selects no PostgresCluster"},
		"too many are":           {func(o *observed) { o.clusters = make([]string, 101) }, v1alpha1.ReasonNoClusters, 1, "selects 101 PostgresClusters"},
		"once, and it is due": {func(o *observed) {
			o.schedule.Spec.Schedule, o.schedule.Status.NextScheduleTime, o.cron.Zone = "", at(0), time.UTC
		}, v1alpha1.ReasonRoundRunning, 0, ""},
	} {
		o := daily(c.change)
		outcome := begin(t.Context(), o)
		if outcome.Reason != c.reason || o.schedule.Status.MissedRounds != c.missed || !strings.Contains(outcome.Message, c.says) {
			t.Errorf("%s: %+v, %d missed", name, outcome, o.schedule.Status.MissedRounds)
		}
		if c.reason == v1alpha1.ReasonRoundRunning && o.schedule.Status.Round.Clusters[0].Name != "a" {
			t.Errorf("%s: %+v", name, o.schedule.Status.Round)
		}
		if next := o.schedule.Status.NextScheduleTime; c.reason != "" && o.schedule.Spec.Schedule != "" && !next.After(o.now) {
			t.Errorf("%s: the next one is due at %s", name, next)
		}
	}
}

// A controller whose clock is ahead for a moment plans a time that nobody lives to see.
func TestARoundBeyondTheNextTimeIsPlannedAnew(t *testing.T) {
	before, years := noon.Add(-time.Minute), at(70*365*24*time.Hour)
	for name, c := range map[string]struct {
		change func(*observed)
		want   *metav1.Time
	}{
		"as planned":          {func(*observed) {}, at(0)},
		"the clock was ahead": {func(o *observed) { o.schedule.Status.NextScheduleTime = years }, at(0)},
		"by another spec": {func(o *observed) {
			o.schedule.Generation, o.schedule.Status.NextScheduleTime = 2, at(-time.Second)
		}, at(0)},
		"once, by a clock that is ahead": {func(o *observed) { o.schedule.Spec.Schedule, o.schedule.Status.NextScheduleTime = "", years }, years},
	} {
		o := daily(c.change, func(o *observed) { o.now = before })
		arm(t.Context(), o)
		if got := o.schedule.Status.NextScheduleTime; !got.Equal(c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestARoundGoesThroughItsClustersAndEndsWithTheFirstThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*observed)
		next    string // cluster of which a drill is created
		reason  string // of what is said where none is
	}{
		"the first":               {[]func(*observed){round("", "")}, "c0", ""},
		"one at a time":           {[]func(*observed){round("…", "")}, "", v1alpha1.ReasonRoundRunning},
		"two at a time":           {[]func(*observed){round("…", ""), func(o *observed) { o.schedule.Spec.MaxConcurrent = 2 }}, "c1", ""},
		"the next":                {[]func(*observed){round("Completed", "")}, "c1", ""},
		"one that was not safe":   {[]func(*observed){round("Unsafe", "")}, "c1", ""},
		"a limit was exceeded":    {[]func(*observed){round("LimitExceeded", "")}, "", v1alpha1.ReasonRoundStopped},
		"it is not whole":         {[]func(*observed){round("NotWhole", "")}, "", v1alpha1.ReasonRoundStopped},
		"one fails, another runs": {[]func(*observed){round("WriterFailed", "…", "")}, "", v1alpha1.ReasonRoundRunning},
		"all are done":            {[]func(*observed){round("Completed", "Completed")}, "", v1alpha1.ReasonScheduled},
		"the only round is done":  {[]func(*observed){round("Completed"), func(o *observed) { o.schedule.Status.NextScheduleTime = nil }}, "", v1alpha1.ReasonRoundCompleted},
	} {
		o := daily(c.changes...)
		_, next := o.progress()
		if failed := o.failed(); failed != nil || c.next == "" {
			outcome := (&Reconciler{}).create(t.Context(), o) // which has nothing to create with
			if outcome.Finished() {
				outcome = conclude(t.Context(), o)
			}
			if outcome.Kind != flow.KindWait || outcome.Reason != c.reason {
				t.Errorf("%s: %+v", name, outcome)
			}
			continue
		}
		if next == nil || next.Name != c.next {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// What was not done at the time that was announced is not made up for at another.
func TestTheRestOfARoundIsSkippedOnceItsTimeHasPassed(t *testing.T) {
	ended := func(result string, after time.Duration) func(*observed) {
		return func(o *observed) {
			o.schedule.Status.Round.Clusters[0].Result, o.schedule.Status.Round.Clusters[0].CompletedAt = result, at(after)
		}
	}
	now := func(after time.Duration) func(*observed) { return func(o *observed) { o.now = noon.Add(after) } }
	for name, c := range map[string]struct {
		change  []func(*observed)
		suspend bool
		skipped int
		ended   bool
	}{
		"it is suspended before the second":     {[]func(*observed){round("Completed", "", "")}, true, 2, true},
		"it is suspended while the first runs":  {[]func(*observed){round("…", "", "")}, true, 2, false},
		"the controller was away for an hour":   {[]func(*observed){round("", "", ""), ended("Completed", time.Minute), now(time.Hour)}, false, 2, true},
		"and before the first":                  {[]func(*observed){round("", "", ""), now(time.Hour)}, false, 3, true},
		"the first took an hour, and has ended": {[]func(*observed){round("", "", ""), ended("Completed", time.Hour), now(time.Hour + time.Minute)}, false, 0, false},
		"the first has run for an hour":         {[]func(*observed){round("…", "", ""), now(time.Hour)}, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := daily(c.change...)
			if c.suspend {
				o.schedule.Spec.Suspend = true
				if outcome := suspend(t.Context(), o); outcome.Reason != v1alpha1.ReasonSuspended {
					t.Fatalf("%+v", outcome)
				}
				o.schedule.Spec.Suspend = false
			} else if late := o.late(); late != (c.skipped > 0) {
				t.Fatalf("late: %v", late)
			}
			if c.skipped > 0 {
				if outcome := (&Reconciler{}).create(t.Context(), o); !outcome.Finished() { // it has nothing to create with
					t.Fatalf("%+v", outcome)
				}
				if outcome := conclude(t.Context(), o); strings.Contains(outcome.Message, "skipped") != c.ended {
					t.Errorf("%+v", outcome)
				}
			}
			skipped := o.count(func(c v1alpha1.DrilledCluster) bool { return c.Result == resultSkipped })
			if skipped != c.skipped || (o.schedule.Status.Round.CompletedAt != nil) != c.ended {
				t.Errorf("%+v", o.schedule.Status.Round)
			}
		})
	}
}

func TestTheNameOfADrillFitsWithTheLongestNameOfASchedule(t *testing.T) {
	name := drillName(strings.Repeat("s", 28), noon, strings.Repeat("c", 253))
	if len(name) > 48 || !strings.Contains(name, "s-2603031200-") {
		t.Errorf("%s has %d characters", name, len(name))
	}
}
