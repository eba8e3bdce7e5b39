package retention

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// lost is a lineage that was written last eight days ago, by a cluster that is not here, and was seen then.
func lost(backups ...Backup) Lineage { return left(8, 8, backups...) }

// TestTheLastCopyOfALineageStays, whatever the policy says and whoever wrote it.
func TestTheLastCopyOfALineageStays(t *testing.T) {
	policies := map[string]Policy{
		"a window": {RecoveryWindow: 7 * days}, "an age": {KeepWithin: days}, "a count": {KeepLast: 1}, "days": {KeepDaily: 1}, "years": {KeepYearly: 1},
	}
	abandoned := []Timeline{began(2, 10)}
	for name, test := range map[string]struct {
		lineage Lineage
		want    string // must be among those that stay
		keepWAL uint64 // the first segment that is needed at the latest
	}{
		"of a writer that is not here":                                  {lost(at(8.5), at(9.5), at(40)), "8.5", 915},
		"its last good one":                                             {lost(at(8.5, damaged), at(9.5), at(40)), "9.5", 905},
		"damaged ones, where there is no other":                         {lost(at(9, damaged), at(30, damaged)), "9 30", 0},
		"the newest, and the newest that leads to the end of a lineage": {lostOn(abandoned, at(9.5), at(11)), "9.5 11", 890},
		"all WAL, where no backup leads to the end":                     {lostOn(abandoned, at(9.5)), "9.5", 0},
		"a damaged one that alone leads to the end":                     {lostOn(abandoned, at(9.5), at(11, damaged)), "9.5 11", 0},
	} {
		for rule, policy := range policies {
			for _, living := range []bool{false, true} {
				lineage := test.lineage
				lineage.Living = living
				plan := Make(lineage, policy, now)
				var stays []string
				for _, v := range plan.Verdicts {
					if !v.Goes() {
						stays = append(stays, v.ID)
					}
				}
				for id := range strings.FieldsSeq(test.want) {
					if !slices.Contains(stays, id) {
						t.Errorf("%s, by %s, living %t: backup %s goes; %v stay", name, rule, living, id, stays)
					}
				}
				if plan.KeepWAL > test.keepWAL {
					t.Errorf("%s, by %s, living %t: WAL stays from %d on, and must from %d", name, rule, living, plan.KeepWAL, test.keepWAL)
				}
			}
		}
	}
}

func lostOn(timelines []Timeline, backups ...Backup) Lineage {
	l := lost(backups...)
	l.Timelines = timelines
	return l
}

// TestABackupWithDamagedPagesStandsForNoneWithoutThem: the last one without them stays, with the WAL that leads past the damage,
// and those with them are kept by the rules among themselves.
func TestABackupWithDamagedPagesStandsForNoneWithoutThem(t *testing.T) {
	lineage := Lineage{Living: true, End: now, Backups: []Backup{at(1, damagedPages), at(2, damagedPages), at(9, damagedPages), at(20), at(30)}}
	for name, test := range map[string]struct {
		policy Policy
		want   string
	}{
		"a window": {Policy{RecoveryWindow: 7 * days}, "1 2 9 20"},
		"a count":  {Policy{KeepLast: 1}, "1 20"},
		"an age":   {Policy{KeepWithin: 36 * time.Hour}, "1 20"},
		"days":     {Policy{KeepDaily: 2}, "1 2 20 30"},
	} {
		plan := Make(lineage, test.policy, now)
		var stays []string
		for _, v := range plan.Verdicts {
			if !v.Goes() {
				stays = append(stays, v.ID)
			}
		}
		if got := strings.Join(stays, " "); got != test.want || plan.KeepWAL > 800 {
			t.Errorf("%s: %s stay, with WAL from %d on; want %s", name, got, plan.KeepWAL, test.want)
		}
	}
	lineage.Backups = []Backup{at(1, damagedPages), at(2, damagedPages)}
	if plan := Make(lineage, Policy{KeepLast: 1}, now); len(plan.Going()) != 1 || plan.KeepWAL != 990 {
		t.Errorf("all have damaged pages: %v goes, with WAL from %d on", plan.Going(), plan.KeepWAL)
	}
}

func TestOfALineageThatWasGivenUpOnlyWhatIsHeldStays(t *testing.T) {
	for _, policy := range []Policy{{}, {RecoveryWindow: 7 * days}, {KeepLast: 5}} {
		lineage := lost(at(8.5), at(9.5, held), at(40, damaged))
		lineage.GivenUp = true
		if plan := Make(lineage, policy, now); len(plan.Going()) != 2 || plan.Verdicts[1].Goes() || plan.KeepWAL != NoWAL {
			t.Errorf("%+v: %v goes, with WAL from %d on", policy, plan.Going(), plan.KeepWAL)
		}
		lineage.Living = true
		if plan := Make(lineage, policy, now); plan.KeepWAL == NoWAL || plan.Verdicts[0].Goes() {
			t.Errorf("%+v: what a cluster still writes is given up", policy)
		}
	}
}

// TestClocksOfInstancesThatDifferCostNoWAL: of two backups that were taken by different instances, the older one can have the later time.
func TestClocksOfInstancesThatDifferCostNoWAL(t *testing.T) {
	first, second := at(2), at(1.9)
	second.Time = first.Time.Add(-time.Minute)
	for name, policy := range map[string]Policy{"a window": {RecoveryWindow: 7 * days}, "an age": {KeepWithin: 7 * days}} {
		if plan := Make(Lineage{Living: true, End: now, Backups: []Backup{first, second}}, policy, now); plan.KeepWAL != first.First {
			t.Errorf("%s: WAL stays from %d on, and the first backup begins at %d", name, plan.KeepWAL, first.First)
		}
	}
}
