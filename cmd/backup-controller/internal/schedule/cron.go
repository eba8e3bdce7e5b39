package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"howdah.dev/apis/v1alpha1"
)

// cron is a schedule in its time zone.
type cron struct {
	expression string
	zone       *time.Location
	// hourly: it goes by hours, not by times of day, so that a change of the clocks neither adds nor takes any.
	hourly bool
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
	return cron{spec.Schedule, zone, hourly(spec.Schedule)}, nil
}

func hourly(schedule string) bool {
	fields := strings.Fields(schedule)
	return fields[0] == "@hourly" || len(fields) > 1 && fields[1] == "*"
}

// mostChanges bounds the changes of the clocks until a schedule comes due: a 29th of February is eight years away at most
// (where gronx finds it at all), and no zone changes more than four times a year.
const mostChanges = 64

// next is the first time after t. Its error is a sentence for a person.
//
// It goes from one change of the clocks to the next. In between, a time of day is a fixed distance from UTC, and gronx
// needn't know of zones.
func (c cron) next(t time.Time) (time.Time, error) {
	at, including := t, false
	for range mostChanges {
		_, offset := at.In(c.zone).Zone()
		begin, end := at.In(c.zone).ZoneBounds()
		from := clock(at, offset)
		if again := c.repeatedUntil(begin, offset); from.Before(again) {
			from, including = again, true
		}
		tick, err := gronx.NextTickAfter(c.expression, from, including)
		if err != nil {
			break
		}
		due := tick.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || due.Before(end) {
			return due.In(time.UTC), nil
		}
		if c.leftOut(tick, end, offset) {
			return end.In(time.UTC), nil
		}
		at, including = end, true
	}
	return time.Time{}, fmt.Errorf("spec.schedule %q never comes due; name a day that exists", c.expression)
}

// clock is what the clocks say at a time, at so many seconds from UTC.
func clock(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// repeatedUntil is the time of day up to which the clocks, gone back at a change, say again what they said before it; zero
// where they don't, or where each time counts.
func (c cron) repeatedUntil(change time.Time, offset int) time.Time {
	if c.hourly || change.IsZero() {
		return time.Time{}
	}
	_, before := change.Add(-time.Nanosecond).In(c.zone).Zone()
	if before <= offset {
		return time.Time{}
	}
	return clock(change, before)
}

// leftOut reports that the clocks go forward over this time of day. It is due at the change then.
func (c cron) leftOut(tick, change time.Time, offset int) bool {
	_, after := change.In(c.zone).Zone()
	return !c.hourly && after > offset && tick.Before(clock(change, after))
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

// mostNames is how many names are tried for one Backup.
const mostNames = 9

// backupName names the Backup that was due at a time, the first time with 1: where a Backup of that name is somebody
// else's, there are others. With the schedule's 41 characters at most it fits a Backup's 56.
func backupName(schedule string, due time.Time, try int) string {
	name := schedule + "-" + due.UTC().Format("0601021504")
	if try > 1 {
		name += fmt.Sprintf("-%d", try)
	}
	return name
}
