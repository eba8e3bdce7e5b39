package retention

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

var now = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC) // a Friday

const days = 24 * time.Hour

// at is a backup of this many days ago, which is its id; WAL segment 1000 is written now, ten a day.
func at(ago float64, change ...func(*Backup)) Backup {
	number := uint64(1000 - 10*ago)
	b := Backup{
		ID: fmt.Sprint(ago), Time: now.Add(-time.Duration(ago * float64(days))), Timeline: 1,
		First: number, Stop: postgres.LSN((number + 1) * postgres.DefaultSegSize),
	}
	for _, c := range change {
		c(&b)
	}
	return b
}

func held(b *Backup)         { b.Held = true }
func damaged(b *Backup)      { b.Damaged = true }
func damagedPages(b *Backup) { b.DamagedPages = true }

func onTimeline(n uint32) func(*Backup) { return func(b *Backup) { b.Timeline = n } }

// began is a timeline that left the first one this many days ago.
func began(timeline uint32, ago float64) Timeline {
	return Timeline{Since: now.Add(-time.Duration(ago * float64(days))), History: postgres.TimelineHistory{
		Timeline:  timeline,
		Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: postgres.LSN(uint64(1000-10*ago) * postgres.DefaultSegSize)}},
	}}
}

// left is a lineage that was written last, and seen first, some days ago.
func left(ended, seen float64, backups ...Backup) Lineage {
	return Lineage{
		Backups: backups, End: now.Add(-time.Duration(ended * float64(days))), FirstSeen: now.Add(-time.Duration(seen * float64(days))),
	}
}

func foreign(l Lineage) Lineage {
	l.Foreign = true
	return l
}

func TestWhatStaysAndWhy(t *testing.T) {
	living := func(backups ...Backup) Lineage { return Lineage{Backups: backups, Living: true, End: now} }
	for name, test := range map[string]struct {
		lineage Lineage
		policy  Policy
		want    string // of each that stays, newest first
		keepWAL uint64
	}{
		"without a policy everything": {living(at(1), at(400)), Policy{}, "1:NoPolicy 400:NoPolicy", 0},
		"the last two, and all WAL from the older one on": {
			living(at(1), at(2), at(3)), Policy{KeepLast: 2}, "1:Newest,KeepLast 2:KeepLast", 980,
		},
		"what is younger": {living(at(1), at(6.9), at(7.1)), Policy{KeepWithin: 7 * days}, "1:Newest,KeepWithin 6.9:KeepWithin", 931},
		"the window, its base, and all WAL from there on": {
			living(at(1), at(6), at(8), at(9)), Policy{RecoveryWindow: 7 * days}, "1:Newest,RecoveryWindow 6:RecoveryWindow 8:RecoveryWindow", 920,
		},
		"a window that has not been filled yet": {
			living(at(1), at(3)), Policy{RecoveryWindow: 7 * days}, "1:Newest,RecoveryWindow 3:RecoveryWindow", 970,
		},
		"what only a period keeps needs only its own WAL": {
			living(at(1), at(8), at(9), at(40)), Policy{RecoveryWindow: 7 * days, KeepMonthly: 2},
			"1:Newest,RecoveryWindow,KeepMonthly 8:RecoveryWindow 40:KeepMonthly", 920,
		},
		"with a window, those that a count keeps need only their own WAL, too": {
			living(at(1), at(2), at(3), at(4)), Policy{RecoveryWindow: days, KeepLast: 3}, "1:Newest,RecoveryWindow,KeepLast 2:KeepLast 3:KeepLast", 990,
		},
		"days and weeks that have one": {
			living(at(0.1), at(0.2), at(1.1), at(5), at(12), at(13)), Policy{KeepDaily: 2, KeepWeekly: 3},
			"0.1:Newest,KeepDaily,KeepWeekly 1.1:KeepDaily 5:KeepWeekly 12:KeepWeekly", 999,
		},
		"years":             {living(at(1), at(80), at(99)), Policy{KeepYearly: 5}, "1:Newest,KeepYearly 80:KeepYearly", 990},
		"one that is held":  {living(at(1), at(80, held)), Policy{KeepLast: 1}, "1:Newest,KeepLast 80:Held", 990},
		"the last good one": {living(at(90)), Policy{KeepWithin: days}, "90:Newest", 100},
		"a damaged one keeps no other from staying": {
			living(at(1, damaged), at(2), at(3)), Policy{KeepLast: 1}, "1:Damaged 2:Newest,KeepLast", 980,
		},
		"a damaged one that is older than the good ones goes": {living(at(1), at(2, damaged)), Policy{KeepLast: 1}, "1:Newest,KeepLast", 990},
		"only damaged ones": {living(at(1, damaged)), Policy{KeepLast: 1}, "1:Damaged", 0},
		"none at all":       {living(), Policy{KeepLast: 1}, "", 0},
		"of a cluster that is gone, what the rules say": {
			left(20, 20, at(30), at(40)), Policy{KeepWithin: 35 * days}, "30:Newest,KeepWithin", 700,
		},
		"of a cluster that is gone, no window any more but the last copy": {
			left(20, 20, at(30), at(40)), Policy{RecoveryWindow: 7 * days}, "30:Newest", 700,
		},
		"of a cluster that has just gone, its whole window": {
			left(2, 2, at(3), at(9), at(19)), Policy{RecoveryWindow: 7 * days}, "3:Newest,RecoveryWindow 9:RecoveryWindow", 910,
		},
		"of a cluster that is gone, a count": {left(20, 20, at(30), at(40)), Policy{KeepLast: 1}, "30:Newest,KeepLast", 700},
		"of somebody who never wrote here, whatever would be counted": {
			foreign(left(20, 20, at(30), at(40), at(41))), Policy{KeepLast: 1, KeepDaily: 1}, "30:Foreign 40:Foreign 41:Foreign", 0,
		},
		"of somebody who never wrote here, what got too old": {
			foreign(left(20, 20, at(30), at(40))), Policy{KeepLast: 1, KeepWithin: 7 * days}, "30:Newest,KeepLast", 700,
		},
		"what was just seen first has the window that it had at its end": {
			left(20, 0, at(21), at(25), at(28), at(30)), Policy{RecoveryWindow: 7 * days}, "21:Newest,RecoveryWindow 25:RecoveryWindow 28:RecoveryWindow", 720,
		},
		"what was first seen five days ago has two days of it left": {
			left(20, 5, at(21), at(25), at(28), at(30)), Policy{RecoveryWindow: 7 * days}, "21:Newest,RecoveryWindow 25:RecoveryWindow", 750,
		},
		"what was first seen eight days ago has none left": {
			left(20, 8, at(21), at(25), at(28), at(30)), Policy{RecoveryWindow: 7 * days}, "21:Newest", 790,
		},
		"ages count from when it was first seen": {left(20, 5, at(21), at(22), at(23)), Policy{KeepWithin: 7 * days}, "21:Newest,KeepWithin 22:KeepWithin", 780},
		"what was first seen in the future was just seen": {
			left(20, -9, at(21), at(25), at(28), at(30)), Policy{RecoveryWindow: 7 * days}, "21:Newest,RecoveryWindow 25:RecoveryWindow 28:RecoveryWindow", 720,
		},
		"what was first seen while it was written has no other clock": {
			left(2, 30, at(3), at(9), at(19)), Policy{RecoveryWindow: 7 * days}, "3:Newest,RecoveryWindow 9:RecoveryWindow", 910,
		},
		"no WAL of which the last backup was given up":     {left(20, 8), Policy{RecoveryWindow: 7 * days}, "", NoWAL},
		"all WAL without a backup, while the window lasts": {left(20, 6), Policy{RecoveryWindow: 7 * days}, "", 0},
		"both that a clock in the future has made and those before it": {
			living(at(-400), at(1), at(9)), Policy{RecoveryWindow: 7 * days}, "-400:Newest,RecoveryWindow 1:RecoveryWindow 9:RecoveryWindow", 910,
		},
		"a base from before the failover, where the later one was not followed": {
			Lineage{
				Backups: []Backup{at(2, onTimeline(2)), at(7.5), at(9)}, Timelines: []Timeline{began(2, 8)}, Living: true, End: now,
			}, Policy{RecoveryWindow: 7 * days}, "2:Newest,RecoveryWindow 9:RecoveryWindow", 910,
		},
		"both bases, where the failover was within the window": {
			Lineage{
				Backups: []Backup{at(2, onTimeline(2)), at(7.5), at(9)}, Timelines: []Timeline{{
					Since: now.Add(-6 * days), History: postgres.TimelineHistory{Timeline: 2, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: at(8).Stop}}},
				}}, Living: true, End: now,
			}, Policy{RecoveryWindow: 7 * days}, "2:Newest,RecoveryWindow 7.5:RecoveryWindow 9:RecoveryWindow", 910,
		},
		"all WAL, while no backup leads to the present timeline": {
			Lineage{Backups: []Backup{at(1)}, Timelines: []Timeline{began(2, 2)}, Living: true, End: now}, Policy{KeepLast: 1}, "1:Newest,KeepLast", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Make(test.lineage, test.policy, now)
			var stays []string
			for _, v := range plan.Verdicts {
				if !v.Goes() {
					stays = append(stays, v.ID+":"+join(v.Stays))
				}
			}
			if got := strings.Join(stays, " "); got != test.want {
				t.Errorf("stays %q, want %q", got, test.want)
			}
			if test.keepWAL != plan.KeepWAL {
				t.Errorf("keeps WAL from %d on, want %d", plan.KeepWAL, test.keepWAL)
			}
			if !slices.IsSortedFunc(plan.Going(), func(a, b Backup) int { return a.Time.Compare(b.Time) }) {
				t.Error("the oldest doesn't go first")
			}
		})
	}
}

func join(reasons []Reason) string {
	var words []string
	for _, r := range reasons {
		words = append(words, string(r))
	}
	return strings.Join(words, ",")
}
