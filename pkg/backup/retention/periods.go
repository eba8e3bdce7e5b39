package retention

import (
	"fmt"
	"time"
)

// period names the day, week, month or year of a time.
type period func(time.Time) string

func day(t time.Time) string { return t.Format(time.DateOnly) }

func week(t time.Time) string {
	year, number := t.ISOWeek()
	return fmt.Sprintf("%d-W%02d", year, number)
}

func month(t time.Time) string { return t.Format("2006-01") }

func year(t time.Time) string { return t.Format("2006") }

// keepPeriods keeps the newest good backup of each of the newest periods that have one.
func (p *planner) keepPeriods() {
	p.keepNewestOf(day, p.policy.KeepDaily, Daily)
	p.keepNewestOf(week, p.policy.KeepWeekly, Weekly)
	p.keepNewestOf(month, p.policy.KeepMonthly, Monthly)
	p.keepNewestOf(year, p.policy.KeepYearly, Yearly)
}

func (p *planner) keepNewestOf(name period, count int, why Reason) {
	seen := ""
	for _, b := range p.good { // newest first
		if count == 0 {
			return
		}
		if is := name(b.Time.UTC()); is != seen {
			seen = is
			count--
			p.keep(b, why)
		}
	}
}
