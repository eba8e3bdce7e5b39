package updatewindow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func windowOf(schedule, zone string, duration time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: duration}}
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
		"before it":           {windowOf("0 3 * * 0", "UTC", time.Hour), on(2, 59), false, "2026-03-01 03:00", ""},
		"at its first moment": {windowOf("0 3 * * 0", "UTC", time.Hour), on(3, 0), true, "", ""},
		"at its last":         {windowOf("0 3 * * 0", "UTC", time.Hour), on(3, 59), true, "", ""},
		"after it":            {windowOf("0 3 * * 0", "UTC", time.Hour), on(4, 0), false, "2026-03-08 03:00", ""},
		"over midnight":       {windowOf("0 23 * * *", "UTC", 3*time.Hour), on(1, 30), true, "", ""},
		"in another zone":     {windowOf("0 3 * * *", "Europe/Berlin", time.Hour), on(2, 30), true, "", ""},
		"in no zone":          {windowOf("0 3 * * *", "Mars/Olympus", time.Hour), on(3, 0), false, "", "is not a time zone"},
		"in no form":          {windowOf("0 33 * * *", "UTC", time.Hour), on(3, 0), false, "", "is not a cron expression"},
	} {
		t.Run(name, func(t *testing.T) {
			open, opens, err := At(MaintenancePath, c.window, c.now)
			if open != c.open || c.opens != "" && opens.Format("2006-01-02 15:04") != c.opens ||
				(err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("open %v, opens %s, %v", open, opens, err)
			}
		})
	}
}

func TestAnAutomaticUpdateGoesOnInItsWindowAndNotTooEarly(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // a Sunday
	at := func(day, hour int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 3, day, hour, 0, 0, 0, time.UTC)}
	}
	sundays, daily := windowOf("0 3 * * 0", "UTC", time.Hour), windowOf("0 11 * * *", "UTC", 2*time.Hour)
	for name, c := range map[string]struct {
		maintenance *v1alpha1.MaintenanceWindow
		updates     *v1alpha1.Updates
		want        string
	}{
		"without a window, at once":                {nil, &v1alpha1.Updates{}, "2026-03-01T12:00:00Z"},
		"in the maintenance window":                {sundays, &v1alpha1.Updates{}, "2026-03-08T03:00:00Z"},
		"its own window comes first":               {sundays, &v1alpha1.Updates{Window: daily}, "2026-03-01T12:00:00Z"},
		"not before a time":                        {nil, &v1alpha1.Updates{NotBefore: at(3, 6)}, "2026-03-03T06:00:00Z"},
		"not before a time outside of the window":  {nil, &v1alpha1.Updates{Window: daily, NotBefore: at(3, 6)}, "2026-03-03T11:00:00Z"},
		"not before a time within the window":      {nil, &v1alpha1.Updates{Window: daily, NotBefore: at(3, 12)}, "2026-03-03T12:00:00Z"},
		"a time that is over":                      {nil, &v1alpha1.Updates{Window: daily, NotBefore: at(1, 1)}, "2026-03-01T12:00:00Z"},
		"a window that never opens":                {nil, &v1alpha1.Updates{Window: windowOf("0 3 31 2 *", "UTC", time.Hour)}, "spec.updates.window.schedule"},
		"a maintenance window that is no window":   {windowOf("0 3 * * 0", "Mars/Olympus", time.Hour), nil, "spec.maintenanceWindow.timeZone"},
		"no policy at all, which asks for nothing": {nil, nil, "2026-03-01T12:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			earliest, err := Earliest(&v1alpha1.PostgresClusterSpec{MaintenanceWindow: c.maintenance, Updates: c.updates}, now)
			got := earliest.Format(time.RFC3339)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, and not %s", got, c.want)
			}
		})
	}
}
