package cron

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func crontab(t *testing.T, schedule, zone string) Schedule {
	t.Helper()
	c, err := Parse("spec", schedule, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheNextTimeIsInTheTimeZoneOfTheSchedule(t *testing.T) {
	for name, test := range map[string]struct{ schedule, zone, after, want string }{
		"every night at 3 in Berlin is 1 in UTC in summer": {"0 3 * * *", "Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-02T01:00:00Z"},
		"and 2 in UTC in winter":                           {"0 3 * * *", "Europe/Berlin", "2026-12-01T12:00:00Z", "2026-12-02T02:00:00Z"},
		"no time zone is UTC":                              {"0 3 * * *", "", "2026-07-01T12:00:00Z", "2026-07-02T03:00:00Z"},
		"the time itself is not after it":                  {"0 3 * * *", "UTC", "2026-07-01T03:00:00Z", "2026-07-02T03:00:00Z"},
		"names work":                                       {"@weekly", "UTC", "2026-07-01T03:00:00Z", "2026-07-05T00:00:00Z"},
		"the 29th of February comes in a leap year":        {"0 0 29 2 *", "UTC", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := crontab(t, test.schedule, test.zone).Next(at(t, test.after))
			if err != nil || !got.Equal(at(t, test.want)) {
				t.Errorf("got %s, %v", got.UTC(), err)
			}
		})
	}
}

// In Berlin the clocks went from 02:00 to 03:00 at 01:00 UTC of 2026-03-29, and from 03:00 to 02:00 at 01:00 UTC of
// 2026-10-25; in New York from 02:00 to 03:00 at 07:00 UTC of 2026-03-08; in Cairo from 00:00 to 01:00 at 22:00 UTC of
// 2026-04-23; on Lord Howe they go back by half an hour, from 02:00 to 01:30 at 15:00 UTC of 2026-04-04.
func TestSchedulesWhenTheClocksChange(t *testing.T) {
	for name, test := range map[string]struct{ schedule, zone, after, want string }{
		"a time that is left out is due at the change": {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		"so is midnight":                                   {"@daily", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z 2026-04-24T21:00:00Z"},
		"several that are left out are due once":           {"*/15 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z 2026-03-09T06:00:00Z"},
		"one that is left out and one at its end are one":  {"0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
		"one before the change and one after it are two":   {"59 1,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T00:59:00Z 2026-03-29T01:59:00Z"},
		"a time that comes twice is due the first time":    {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		"not when one looks between the two":               {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", "2026-10-26T01:30:00Z 2026-10-27T01:30:00Z"},
		"the end of the hour that comes twice is due then": {"0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z 2026-10-26T02:00:00Z"},
		"half an hour that comes twice":                    {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z 2026-04-05T15:15:00Z"},
		"every hour is every hour when one comes twice":    {"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"},
		"every hour is every hour when one is left out":    {"@hourly", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z 2026-03-29T02:00:00Z"},
		"half past every hour too":                         {"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z 2026-03-29T01:30:00Z"},
		"a zone that changes no more":                      {"30 2 * * *", "Asia/Tokyo", "2026-03-28T12:00:00Z", "2026-03-28T17:30:00Z 2026-03-29T17:30:00Z"},
		"a day of the week that the change falls on":       {"30 2 * * 0", "Europe/Berlin", "2026-03-23T12:00:00Z", "2026-03-29T01:00:00Z 2026-04-05T00:30:00Z"},
		"a leap day is found across many changes":          {"30 2 29 2 *", "Europe/Berlin", "2028-03-01T00:00:00Z", "2032-02-29T01:30:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := crontab(t, test.schedule, test.zone), at(t, test.after)
			for want := range strings.FieldsSeq(test.want) {
				got, err := c.Next(now)
				if err != nil || !got.Equal(at(t, want)) {
					t.Fatalf("after %s comes %s, %v; want %s", now.UTC(), got, err, want)
				}
				now = got
			}
		})
	}
}

func TestABadScheduleIsRefusedWithASentence(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone, want string
	}{
		"an unknown time zone": {"0 3 * * *", "Europe/Atlantis", `spec.timeZone "Europe/Atlantis" is not a time zone`},
		"the node's time zone": {"0 3 * * *", "Local", `spec.timeZone "Local" is not a time zone`},
		"a minute too many":    {"60 3 * * *", "", `spec.schedule "60 3 * * *" is not a cron expression`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("spec", test.schedule, test.zone); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestADayThatNeverComesIsRefused(t *testing.T) {
	_, err := crontab(t, "0 0 31 2 *", "UTC").Next(at(t, "2026-01-01T00:00:00Z"))
	if err == nil || !strings.Contains(err.Error(), "never comes due") {
		t.Errorf("got %v", err)
	}
}

func TestAfterAnOutageOnlyTheLatestTimeIsDueAndTheOthersAreMissed(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, planned, now, latest, next string
		missed                               int64
	}{
		"in time":              {"0 * * * *", "2026-07-01T03:00:00Z", "2026-07-01T03:00:01Z", "2026-07-01T03:00:00Z", "2026-07-01T04:00:00Z", 0},
		"late, but not by one": {"0 * * * *", "2026-07-01T03:00:00Z", "2026-07-01T03:59:59Z", "2026-07-01T03:00:00Z", "2026-07-01T04:00:00Z", 0},
		"down for three hours": {"0 * * * *", "2026-07-01T03:00:00Z", "2026-07-01T06:30:00Z", "2026-07-01T06:00:00Z", "2026-07-01T07:00:00Z", 3},
		"down for a month, once a minute": {"* * * * *", "2026-06-01T00:00:00Z", "2026-07-01T00:00:30Z",
			"2026-06-02T09:20:00Z", "2026-07-01T00:01:00Z", mostTicks},
	} {
		t.Run(name, func(t *testing.T) {
			latest, missed, next, err := crontab(t, test.schedule, "UTC").Due(at(t, test.planned), at(t, test.now))
			if err != nil || !latest.Equal(at(t, test.latest)) || missed != test.missed || !next.Equal(at(t, test.next)) {
				t.Errorf("latest %s, missed %d, next %s, %v", latest, missed, next, err)
			}
		})
	}
}

func TestATimeThatLiesAheadHasNotCome(t *testing.T) {
	now := at(t, "2026-07-01T12:00:00Z")
	noted := func(text string) *metav1.Time { return &metav1.Time{Time: at(t, text)} }
	for name, c := range map[string]struct {
		before Times
		last   string
	}{
		"it has come":                       {Times{Last: noted("2026-07-01T03:00:00Z"), Next: noted("2026-07-02T03:00:00Z")}, "2026-07-01T03:00:00Z"},
		"the clock was ahead":               {Times{Last: noted("2026-07-05T03:00:00Z"), Next: noted("2099-01-01T03:00:00Z")}, ""},
		"the clock was ahead, and one came": {Times{Last: noted("2026-07-05T03:00:00Z"), Next: noted("2026-07-01T03:00:00Z")}, "2026-07-01T03:00:00Z"},
	} {
		turned, err := Turn("spec", "0 3 * * *", "UTC", c.before, now)
		if err != nil || !turned.Next.Equal(noted("2026-07-02T03:00:00Z")) {
			t.Errorf("%s: the next is %v, %v", name, turned.Next, err)
		}
		if c.last == "" && turned.Last != nil || c.last != "" && !turned.Last.Equal(noted(c.last)) {
			t.Errorf("%s: the last is %v", name, turned.Last)
		}
	}
}

func FuzzASchedulePlansOnlyTheFuture(f *testing.F) {
	f.Add("0 3 * * *", int64(1790000000))
	f.Add("*/7 1-5 L * 1,3", int64(0))
	f.Fuzz(func(t *testing.T, schedule string, seconds int64) {
		c, err := Parse("spec", schedule, "Europe/Berlin")
		if err != nil || seconds < 0 || seconds > 4e9 {
			return
		}
		now := time.Unix(seconds, 0)
		if next, err := c.Next(now); err == nil && !next.After(now) {
			t.Errorf("%q after %s is %s", schedule, now, next)
		}
	})
}
