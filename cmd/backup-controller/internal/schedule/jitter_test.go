package schedule

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/cron"
)

var night = time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)

func nightly(t *testing.T, uid types.UID, jitterSeconds int64, now time.Time) *observed {
	t.Helper()
	schedule := &v1alpha1.BackupSchedule{Spec: v1alpha1.BackupScheduleSpec{JitterSeconds: jitterSeconds}}
	schedule.UID = uid
	times, err := cron.Parse("spec", "0 3 * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return &observed{schedule: schedule, cron: times, now: now}
}

func TestTheSchedulesOfManyClustersSpreadOverTheirJitter(t *testing.T) {
	perTenMinutes := [6]int{}
	for i := range 600 {
		o := nightly(t, types.UID(fmt.Sprint("uid-", i)), 3599, night.Add(-time.Hour))
		next, err := o.next()
		if err != nil || next.Before(night) || next.After(night.Add(3599*time.Second)) {
			t.Fatal(next, err)
		}
		perTenMinutes[int(next.Sub(night)/(10*time.Minute))]++
	}
	for _, n := range perTenMinutes {
		if n < 60 || n > 140 {
			t.Errorf("of 600 schedules, ten minutes each have %v", perTenMinutes)
		}
	}
}

func TestTheDelayOfAScheduleIsTheSameEachTime(t *testing.T) {
	o := nightly(t, "uid-1", 3600, night.Add(-time.Hour))
	first, err := o.next()
	if err != nil || !first.After(night) {
		t.Fatal(first, err)
	}
	for _, test := range []struct {
		now     time.Time
		latest  time.Time
		missed  int64
		nextDay int
	}{
		{first, first, 0, 1},
		{first.Add(2 * time.Hour), first, 0, 1},
		{night.AddDate(0, 0, 1), first, 0, 1}, // the next one is due, but for its delay
		{first.AddDate(0, 0, 2), first.AddDate(0, 0, 2), 2, 3},
	} {
		o := nightly(t, "uid-1", 3600, test.now)
		o.schedule.Status.NextScheduleTime = &metav1.Time{Time: first}
		latest, missed, next, err := o.due()
		if err != nil || !latest.Equal(test.latest) || missed != test.missed || !next.Equal(first.AddDate(0, 0, test.nextDay)) {
			t.Errorf("at %s: due at %s, missed %d, next at %s, %v", test.now, latest, missed, next, err)
		}
	}
}

func TestWithoutJitterBackupsComeAtTheMinute(t *testing.T) {
	o := nightly(t, "uid-1", 0, night.Add(-time.Hour))
	if next, err := o.next(); err != nil || !next.Equal(night) {
		t.Error(next, err)
	}
}
