package window

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestAgentsAreToldTheWindowThatIsOpenOrElseTheNext(t *testing.T) {
	o := observedtest.Running(func(*observed.Cluster) {})
	for hour, want := range map[int]string{2: "2026-03-01T03:00:00Z 2026-03-01T04:00:00Z", 3: "2026-03-01T03:00:00Z 2026-03-01T04:00:00Z", 4: "2026-03-08T03:00:00Z 2026-03-08T04:00:00Z"} {
		o.Now, o.Cluster.Spec.MaintenanceWindow = time.Date(2026, 3, 1, hour, 30, 0, 0, time.UTC), observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour)
		if p := Period(o); p == nil || p.From.Format(time.RFC3339)+" "+p.To.Format(time.RFC3339) != want {
			t.Errorf("at %d:30 %v", hour, p)
		}
	}
	o.Cluster.Spec.MaintenanceWindow = nil
	if p := Period(o); p != nil {
		t.Errorf("without a window: %v", p)
	}
}

func TestAWindowIsOpenFromItsTimeForItsDuration(t *testing.T) {
	on := func(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) } // a Sunday
	for name, c := range map[string]struct {
		window *v1alpha1.MaintenanceWindow
		now    time.Time
		open   bool
		opens  string
		err    string
	}{
		"none is always open": {nil, on(12, 0), true, "", ""},
		"before it":           {observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour), on(2, 59), false, "2026-03-01 03:00", ""},
		"at its first moment": {observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour), on(3, 0), true, "", ""},
		"at its last":         {observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour), on(3, 59), true, "", ""},
		"after it":            {observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour), on(4, 0), false, "2026-03-08 03:00", ""},
		"over midnight":       {observedtest.WindowOf("0 23 * * *", "UTC", 3*time.Hour), on(1, 30), true, "", ""},
		"in another zone":     {observedtest.WindowOf("0 3 * * *", "Europe/Berlin", time.Hour), on(2, 30), true, "", ""},
		"in no zone":          {observedtest.WindowOf("0 3 * * *", "Mars/Olympus", time.Hour), on(3, 0), false, "", "is not a time zone"},
		"in no form":          {observedtest.WindowOf("0 33 * * *", "UTC", time.Hour), on(3, 0), false, "", "is not a cron expression"},
	} {
		t.Run(name, func(t *testing.T) {
			open, opens, err := at(c.window, c.now)
			if open != c.open || c.opens != "" && opens.Format("2006-01-02 15:04") != c.opens ||
				(err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("open %v, opens %s, %v", open, opens, err)
			}
		})
	}
}
