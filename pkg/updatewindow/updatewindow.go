// Package updatewindow says when a window is open in which what runs may be stopped, and from when on an automatic update may continue. It
// is pure, and every controller goes by it, so that a window means the same for changes, minor and major updates.
package updatewindow

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"

	"howdah.dev/apis/v1alpha1"
)

// MaintenancePath is where a person finds the window for changes in general, and updatesPath that of automatic updates.
const (
	MaintenancePath = "spec.maintenanceWindow"
	updatesPath     = "spec.updates.window"
)

// At says whether what runs may be taken down at a time, and since when or else from when on. Its error is a sentence for a person,
// who finds the window at the path.
func At(path string, spec *v1alpha1.MaintenanceWindow, now time.Time) (open bool, opens time.Time, err error) {
	if spec == nil {
		return true, now, nil
	}
	zone, err := time.LoadLocation(spec.TimeZone)
	if err != nil || spec.TimeZone == "Local" {
		return false, time.Time{}, fmt.Errorf("%s.timeZone %q is not a time zone; write a name from the IANA database, such as Europe/Berlin or UTC", path, spec.TimeZone)
	}
	if !gronx.IsValid(spec.Schedule) {
		return false, time.Time{}, fmt.Errorf("%s.schedule %q is not a cron expression; write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-6), such as '0 3 * * 0' for Sundays at 3", path, spec.Schedule)
	}
	if last, err := gronx.PrevTickBefore(spec.Schedule, now.In(zone), true); err == nil && now.Before(last.Add(spec.Duration.Duration)) {
		return true, last, nil
	}
	opens, err = gronx.NextTickAfter(spec.Schedule, now.In(zone), false)
	if err != nil || !opens.After(now) {
		return false, time.Time{}, fmt.Errorf("%s.schedule %q never occurs; name a day that exists", path, spec.Schedule)
	}
	return false, opens, nil
}

// Earliest is when an automatic update of the cluster may continue: now, or once it is not too early and the window is open. Its error
// says, as a sentence for a person, why the window never opens.
func Earliest(spec *v1alpha1.PostgresClusterSpec, now time.Time) (time.Time, error) {
	path, window, from := MaintenancePath, spec.MaintenanceWindow, now
	if updates := spec.Updates; updates != nil {
		if updates.Window != nil {
			path, window = updatesPath, updates.Window
		}
		if updates.NotBefore != nil && from.Before(updates.NotBefore.Time) {
			from = updates.NotBefore.Time
		}
	}
	open, opens, err := At(path, window, from)
	switch {
	case err != nil:
		return time.Time{}, err
	case open:
		return from, nil
	}
	return opens, nil
}
