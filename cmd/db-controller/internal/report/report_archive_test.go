package report

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestThePositionOfTheArchiveIsPublishedOnceAMinuteAtMost(t *testing.T) {
	at := func(d time.Duration) time.Time { return observedtest.Noon.Add(d) }
	for name, c := range map[string]struct {
		published time.Duration
		seen      time.Duration
		now       time.Duration
		want      bool
	}{
		"a segment seconds after the last is not": {0, 10 * time.Second, 15 * time.Second, false},
		"one a minute after the last is":          {0, time.Minute, 61 * time.Second, true},
		"the last of a burst is, a minute later":  {0, 10 * time.Second, 70 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			archive := &v1alpha1.ArchiveStatus{LastArchivedWAL: "A", LastArchivedTime: observed.TimeOf(at(c.published))}
			reportPushed(archive, &agentapi.ArchiveStatus{LastWAL: "B", LastTime: at(c.seen)}, at(c.now))
			if (archive.LastArchivedWAL == "B") != c.want {
				t.Errorf("published %s", archive.LastArchivedWAL)
			}
		})
	}
	first := &v1alpha1.ArchiveStatus{}
	reportPushed(first, &agentapi.ArchiveStatus{LastWAL: "A", LastTime: observedtest.Noon}, observedtest.Noon)
	if first.LastArchivedWAL != "A" {
		t.Error("the very first is not published at once")
	}
}

func TestDamagedWALIsRememberedAndToldOfForADay(t *testing.T) {
	archive := &v1alpha1.ArchiveStatus{}
	seen := agentapi.ArchiveStatus{Damaged: &agentapi.DamagedWAL{Segment: "000000010000000000000005", LSN: "0/5000100", Time: observedtest.Noon}}
	reportBehind(archive, &agentapi.Status{Archive: &seen}, observedtest.Noon)
	reportBehind(archive, &agentapi.Status{Archive: &agentapi.ArchiveStatus{}}, observedtest.Noon) // of an agent that was started again
	if archive.DamagedWAL == nil || archive.DamagedWAL.LSN != "0/5000100" {
		t.Fatalf("the status has %+v", archive.DamagedWAL)
	}
	if message := damagedMessage(archive, observedtest.Noon.Add(time.Hour)); !strings.Contains(message, "LSN 0/5000100 in WAL segment 000000010000000000000005") {
		t.Errorf("the message is %q", message)
	}
	if message := damagedMessage(archive, observedtest.Noon.Add(25*time.Hour)); message != "" {
		t.Errorf("a day later the message is %q", message)
	}
}

func TestWhatWaitsForTheArchiveIsPublishedWhileItIsLate(t *testing.T) {
	ago := func(d time.Duration) time.Time { return observedtest.Noon.Add(-d) }
	for name, c := range map[string]struct {
		seen    agentapi.ArchiveStatus
		fullAt  time.Time
		waiting int32
		since   bool
		full    bool
		behind  bool
	}{
		"nothing waits":             {seen: agentapi.ArchiveStatus{}, fullAt: observedtest.Noon.Add(time.Hour)},
		"one waits for a moment":    {seen: agentapi.ArchiveStatus{Waiting: 1, WaitingSince: ago(time.Second)}},
		"some wait for two minutes": {seen: agentapi.ArchiveStatus{Waiting: 3, WaitingSince: ago(2 * time.Minute)}, waiting: 3, since: true},
		"some wait for six minutes": {
			seen: agentapi.ArchiveStatus{Waiting: 9, WaitingSince: ago(6 * time.Minute)}, fullAt: observedtest.Noon.Add(time.Hour),
			waiting: 9, since: true, full: true, behind: true,
		},
		"it fails": {seen: agentapi.ArchiveStatus{Waiting: 1, WaitingSince: ago(time.Second), FailingSince: ago(time.Second)}, waiting: 1, since: true},
	} {
		t.Run(name, func(t *testing.T) {
			archive := &v1alpha1.ArchiveStatus{}
			reportBehind(archive, &agentapi.Status{Archive: &c.seen, Volume: &agentapi.VolumeStatus{FullAt: c.fullAt}}, observedtest.Noon)
			if archive.Waiting != c.waiting || (archive.WaitingSince != nil) != c.since || (archive.DiskFullAt != nil) != c.full || behind(archive, observedtest.Noon) != c.behind {
				t.Errorf("%+v", archive)
			}
		})
	}
}

func TestTheLastFailureIsPublishedWithoutWritingAllTheTime(t *testing.T) {
	archive := &v1alpha1.ArchiveStatus{}
	at := func(d time.Duration, failing bool, why string) *agentapi.ArchiveStatus {
		seen := &agentapi.ArchiveStatus{LastFailure: why, LastFailureTime: observedtest.Noon.Add(d)}
		if failing {
			seen.FailingSince = observedtest.Noon
		}
		return seen
	}
	for _, step := range []struct {
		seen *agentapi.ArchiveStatus
		want time.Duration
	}{
		{at(0, true, "away"), 0},
		{at(3*time.Second, true, "away"), 0},
		{at(5*time.Second, true, "refused"), 5 * time.Second},
		{at(70*time.Second, true, "refused"), 70 * time.Second},
		{at(80*time.Second, false, "refused"), 80 * time.Second},
		{&agentapi.ArchiveStatus{}, 80 * time.Second}, // the agent was started again
	} {
		reportFailure(archive, step.seen, !step.seen.FailingSince.IsZero())
		if got := archive.LastFailureTime.Sub(observedtest.Noon); got != step.want {
			t.Errorf("published that of %s, want %s", got, step.want)
		}
	}
}

func TestAnEstimateIsPublishedAgainOnlyWhenItDiffersMuch(t *testing.T) {
	archive := &v1alpha1.ArchiveStatus{}
	for _, minutes := range []struct{ seen, want int }{{100, 100}, {105, 100}, {95, 100}, {60, 60}, {61, 60}} {
		in := func(n int) time.Time { return observedtest.Noon.Add(time.Duration(n) * time.Minute) }
		reportFull(archive, in(minutes.seen), true, observedtest.Noon)
		if !archive.DiskFullAt.Time.Equal(in(minutes.want)) {
			t.Errorf("at %s, want %s", archive.DiskFullAt, in(minutes.want))
		}
	}
}

func TestAMessageAboutTheArchiveSaysWhatIsAtRisk(t *testing.T) {
	archive := &v1alpha1.ArchiveStatus{Waiting: 7, WaitingSince: observed.TimeOf(observedtest.Noon), CompleteUntil: observed.TimeOf(observedtest.Noon), DiskFullAt: observed.TimeOf(observedtest.Noon.Add(time.Hour))}
	for _, part := range []string{"7 WAL segments", "since 2026-03-01T12:00:00Z is on the volumes only", "will be full at about 2026-03-01T13:00:00Z"} {
		if !strings.Contains(behindMessage(archive), part) {
			t.Errorf("%q lacks %q", behindMessage(archive), part)
		}
	}
}
