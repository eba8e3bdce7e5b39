package schedule

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"

	"howdah.dev/apis/v1alpha1"
)

// cron is a schedule in its time zone.
type cron struct {
	expression string
	zone       *time.Location
}

// parse reads the schedule of a spec. Its error is a sentence for a person.
func parse(spec *v1alpha1.BackupScheduleSpec) (cron, error) {
	name := spec.TimeZone
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return cron{}, fmt.Errorf("spec.timeZone %q is no time zone; write a name of the IANA data base, such as Europe/Berlin or UTC", spec.TimeZone)
	}
	if !gronx.IsValid(spec.Schedule) {
		return cron{}, fmt.Errorf("spec.schedule %q is not in cron's form; write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-6), such as '0 3 * * *' for every night at 3", spec.Schedule)
	}
	return cron{spec.Schedule, zone}, nil
}

// next is the first time after t. Its error is a sentence for a person.
func (c cron) next(t time.Time) (time.Time, error) {
	next, err := gronx.NextTickAfter(c.expression, t.In(c.zone), false)
	if err != nil || !next.After(t) {
		return time.Time{}, fmt.Errorf("spec.schedule %q never comes due; name a day that exists", c.expression)
	}
	return next, nil
}

// mostTicks bounds how many passed times are counted one by one, as each takes up to half a millisecond; a schedule of
// every minute gets there in a day and a half.
const mostTicks = 2000

// due looks at what has passed since the planned time, which is due itself: the latest time that has come, how many
// came before it, and the next one.
func (c cron) due(planned, now time.Time) (latest time.Time, missed int64, next time.Time, err error) {
	latest = planned
	for range mostTicks {
		if next, err = c.next(latest); err != nil || next.After(now) {
			return latest, missed, next, err
		}
		latest = next
		missed++
	}
	next, err = c.next(now)
	return latest, missed, next, err
}

// backupName names the Backup that was due at a time: with the schedule's 41 characters at most, it fits a Backup's 52.
func backupName(schedule string, due time.Time) string {
	return schedule + "-" + due.UTC().Format("0601021504")
}
