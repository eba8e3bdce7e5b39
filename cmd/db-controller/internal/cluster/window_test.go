package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

func windowOf(schedule, zone string, length time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: length}}
}

func TestAWindowIsOpenFromItsTimeForItsDuration(t *testing.T) {
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) } // a Sunday
	for name, c := range map[string]struct {
		wish  *v1alpha1.MaintenanceWindow
		now   time.Time
		open  bool
		opens string
		err   string
	}{
		"none is always open": {nil, at(12, 0), true, "", ""},
		"before it":           {windowOf("0 3 * * 0", "UTC", time.Hour), at(2, 59), false, "2026-03-01 03:00", ""},
		"at its first moment": {windowOf("0 3 * * 0", "UTC", time.Hour), at(3, 0), true, "", ""},
		"at its last":         {windowOf("0 3 * * 0", "UTC", time.Hour), at(3, 59), true, "", ""},
		"after it":            {windowOf("0 3 * * 0", "UTC", time.Hour), at(4, 0), false, "2026-03-08 03:00", ""},
		"over midnight":       {windowOf("0 23 * * *", "UTC", 3*time.Hour), at(1, 30), true, "", ""},
		"in another zone":     {windowOf("0 3 * * *", "Europe/Berlin", time.Hour), at(2, 30), true, "", ""},
		"in no zone":          {windowOf("0 3 * * *", "Mars/Olympus", time.Hour), at(3, 0), false, "", "is no time zone"},
		"in no form":          {windowOf("0 33 * * *", "UTC", time.Hour), at(3, 0), false, "", "is not in cron's form"},
	} {
		t.Run(name, func(t *testing.T) {
			open, opens, err := window(c.wish, c.now)
			if open != c.open || c.opens != "" && opens.Format("2006-01-02 15:04") != c.opens ||
				(err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("open %v, opens %s, %v", open, opens, err)
			}
		})
	}
}

func TestWhatIsDownDoesNotWaitForTheWindow(t *testing.T) {
	shut := func(w *world) { w.cluster.Spec.MaintenanceWindow = windowOf("0 3 * * *", "UTC", time.Hour) }
	for name, c := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"an image for a replica":    {newImage(), true},
		"an image for the primary":  {newImage(1, 2), true},
		"a parameter":               {waitsFor("max_connections", "50", "shop-0"), true},
		"an image for what is down": {and(newImage(), func(w *world) { unready(w, 1) }), false},
		"other data":                {func(w *world) { w.cluster.Status.DataGeneration = "g2" }, false},
		"nothing":                   {nil, false},
	} {
		w := trio(and(shut, orNothing(c.change)))
		if got := w.disturbs(w.nextMove()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func orNothing(change func(*world)) func(*world) {
	if change == nil {
		return func(*world) {}
	}
	return change
}

func TestAChangeThatWaitsForTheWindowSaysUntilWhen(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*world)
		schedule        string
		reason, message string
	}{
		"a restart":         {waitsFor("max_connections", "50", "shop-0"), "0 3 * * *", "RestartPending", "max_connections: waits for a restart of PostgreSQL in shop-0. It waits for the maintenance window, which opens on 2026-03-02 at 03:00 UTC."},
		"another image":     {newImage(), "0 3 * * *", "Applying", "has to be replaced for the image postgres:17.6 instead of postgres:17. It waits for the maintenance window"},
		"a broken window":   {newImage(), "a b c d e", "InvalidWindow", "Nothing is restarted: spec.maintenanceWindow.schedule"},
		"nothing to change": {nil, "0 3 * * *", "Current", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(c.change)
			w.cluster.Spec.MaintenanceWindow = windowOf(c.schedule, "UTC", time.Hour)
			report(w, flow.Next)
			got := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
		})
	}
}
