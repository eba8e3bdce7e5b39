package window

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
)

// Path of the window for changes in general.
const Path = "spec.maintenanceWindow"

func at(spec *v1alpha1.MaintenanceWindow, now time.Time) (open bool, opens time.Time, err error) {
	return At(Path, spec, now)
}

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

// Open says whether what runs may be taken down now.
func Open(o *observed.Cluster) bool {
	open, _, _ := at(o.Cluster.Spec.MaintenanceWindow, o.Now)
	return open
}

// Period is the window that is open, or else the next one, for agents: nil where there is none, which is always open. One that is
// invalid never opens.
func Period(o *observed.Cluster) *agentapi.Period {
	spec := o.Cluster.Spec.MaintenanceWindow
	if spec == nil {
		return nil
	}
	_, opens, err := at(spec, o.Now)
	if err != nil {
		return &agentapi.Period{}
	}
	return &agentapi.Period{From: opens.UTC(), To: opens.Add(spec.Duration.Duration).UTC()}
}

// Condition says that nobody knows when PostgreSQL may be restarted.
func Condition(o *observed.Cluster) condition.Finding {
	if _, _, err := at(o.Cluster.Spec.MaintenanceWindow, o.Now); err != nil {
		return condition.False(v1alpha1.ReasonInvalidWindow, "Nothing is restarted: "+phrase.Sentence(err.Error()))
	}
	return condition.Finding{}
}

// Wait says until when a change waits; empty: it doesn't.
func Wait(o *observed.Cluster) string {
	open, opens, err := at(o.Cluster.Spec.MaintenanceWindow, o.Now)
	if open || err != nil {
		return ""
	}
	return fmt.Sprintf(" It waits for the maintenance window, which opens on %s.", opens.Format("2006-01-02 at 15:04 MST"))
}
