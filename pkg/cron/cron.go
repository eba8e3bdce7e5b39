// Package cron reads schedules in cron's form, and finds their times across every change of the clocks.
package cron

import (
	"fmt"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Schedule is a schedule in its time zone.
type Schedule struct {
	field, expression string
	// Zone of its times.
	Zone *time.Location
	// hourly: it goes by hours, not by times of day, so that a change of the clocks neither adds nor takes any.
	hourly bool
}

// Parse reads the fields schedule and timeZone of an object's field, such as spec. Its error is a sentence for a person.
func Parse(field, schedule, timeZone string) (Schedule, error) {
	name := timeZone
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return Schedule{}, fmt.Errorf("%s.timeZone %q is not a time zone; write a name from the IANA database, such as Europe/Berlin or UTC", field, timeZone)
	}
	if !gronx.IsValid(schedule) {
		return Schedule{}, fmt.Errorf("%s.schedule %q is not a cron expression; write minute (0-59), hour (0-23), day of month (1-31), month (1-12) and day of week (0-6), such as '0 3 * * *' for every night at 3", field, schedule)
	}
	return Schedule{field, schedule, zone, hourly(schedule)}, nil
}

func hourly(schedule string) bool {
	fields := strings.Fields(schedule)
	return fields[0] == "@hourly" || len(fields) > 1 && fields[1] == "*"
}

// mostChanges bounds the changes of the clocks until a schedule comes due: a 29th of February is eight years away at most
// (where gronx finds it at all), and no zone changes more than four times a year.
const mostChanges = 64

// Next is the first time after t. Its error is a sentence for a person.
//
// It goes from one change of the clocks to the next. In between, a time of day is a fixed distance from UTC, and gronx
// needn't know of zones.
func (c Schedule) Next(t time.Time) (time.Time, error) {
	at, including := t, false
	for range mostChanges {
		_, offset := at.In(c.Zone).Zone()
		begin, end := at.In(c.Zone).ZoneBounds()
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
	return time.Time{}, fmt.Errorf("%s.schedule %q never comes due; name a day that exists", c.field, c.expression)
}

// clock is what the clocks say at a time, at this many seconds from UTC.
func clock(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// repeatedUntil is the time of day up to which the clocks, gone back at a change, say again what they said before it; zero
// where they don't, or where each time counts.
func (c Schedule) repeatedUntil(change time.Time, offset int) time.Time {
	if c.hourly || change.IsZero() {
		return time.Time{}
	}
	_, before := change.Add(-time.Nanosecond).In(c.Zone).Zone()
	if before <= offset {
		return time.Time{}
	}
	return clock(change, before)
}

// leftOut reports that the clocks go forward over this time of day. It is due at the change then.
func (c Schedule) leftOut(tick, change time.Time, offset int) bool {
	_, after := change.In(c.Zone).Zone()
	return !c.hourly && after > offset && tick.Before(clock(change, after))
}

// mostTicks bounds how many passed times are counted one by one, as each takes up to half a millisecond; a schedule of
// every minute gets there in a day and a half.
const mostTicks = 2000

// Due looks at what has passed since the planned time, which is due itself: the latest time that has come, how many
// came before it, and the next one.
func (c Schedule) Due(planned, now time.Time) (latest time.Time, missed int64, next time.Time, err error) {
	latest = planned
	for range mostTicks {
		if next, err = c.Next(latest); err != nil || next.After(now) {
			return latest, missed, next, err
		}
		latest = next
		missed++
	}
	next, err = c.Next(now)
	return latest, missed, next, err
}
