package survey

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

const seg = postgres.DefaultSegSize

// clock is a time on the day of these tests.
func clock(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

func head(id string, stop postgres.LSN, at time.Time) *backup.Head {
	return &backup.Head{ID: id, Timeline: 1, StartLSN: stop - 0x1000, StopLSN: stop, StopTime: at, WAL: backup.WALRange{Last: "LAST"}}
}

// archive has backups of 10:00 and 11:00; the last commit is at 12:03, in the segment that ends at 0/6000000.
func archive(t Target, change func(*Lineage)) Report {
	last := clock(12, 3)
	l := Lineage{Name: "a", Heads: []*backup.Head{head("old", 0x2000100, clock(10, 0)), head("new", 0x4000100, clock(11, 0))}}
	l.Reach = Reach{
		Timeline: 1, First: postgres.SegmentOf(1, 0x4000000, seg), Last: postgres.SegmentOf(1, 0x5000000, seg),
		Segments: 2, EndLSN: 0x5800000, LastCommit: &last,
	}
	if change != nil {
		change(&l)
	}
	l.Chosen = l.choose(t)
	return Report{At: clock(13, 0), Lineages: []Lineage{l}}
}

func at(t time.Time) Target { return Target{Time: &t} }

func exclusive(t Target) Target {
	no := false
	t.Inclusive = &no
	return t
}

var (
	dead = Facts{Now: clock(13, 0), Asked: clock(12, 59), Source: "cluster shop"}
	live = Facts{Now: clock(13, 0), Asked: clock(12, 59), Source: "cluster shop", Live: "a", Settle: 6 * time.Minute}
)

func TestATargetThatCanBeReachedIsPlanned(t *testing.T) {
	hole := func(l *Lineage) { l.Reach.Missing = "000000010000000000000006" }
	point := func(l *Lineage) { l.Points = []wal.RestorePoint{{Name: "p", LSN: 0x4800000, Time: clock(11, 30)}} }
	for name, test := range map[string]struct {
		target Target
		facts  Facts
		change func(*Lineage)
		backup string
		end    bool // replay has no target to stop at
	}{
		"a time before the last commit":                             {at(clock(12, 0)), dead, nil, "new", false},
		"a time between the backups begins with the first":          {at(clock(10, 30)), dead, nil, "old", false},
		"the very time of a backup":                                 {at(clock(11, 0)), dead, nil, "new", false},
		"the very time of the last commit":                          {at(clock(12, 3)), dead, nil, "new", true},
		"a time until which a live, quiet cluster archived nothing": {at(clock(12, 30)), live, nil, "new", true},
		"right before the very time of the last commit":             {exclusive(at(clock(12, 3))), dead, nil, "new", false},
		"right before a time behind the last commit":                {exclusive(at(clock(12, 3).Add(time.Second))), live, nil, "new", true},
		"a transaction":                          {Target{XID: 700}, dead, nil, "new", false},
		"the end of the backup":                  {Target{Immediate: true}, live, hole, "new", false},
		"the end of a timeline":                  {Target{Timeline: 1}, live, nil, "new", true},
		"a time before a hole":                   {at(clock(12, 0)), dead, hole, "new", false},
		"the end":                                {Target{}, dead, nil, "new", true},
		"an LSN":                                 {Target{LSN: 0x5000000}, dead, nil, "new", false},
		"an LSN in the rest of the last segment": {Target{LSN: 0x5900000}, dead, nil, "new", false},
		"an LSN between the backups":             {Target{LSN: 0x3000000}, dead, nil, "old", false},
		"a restore point":                        {Target{RestorePoint: "p"}, dead, point, "new", false},
		"a time that a later backup proves to be quiet": {at(clock(12, 20)), dead, func(l *Lineage) {
			l.Heads = append(l.Heads, head("newest", 0x5700000, clock(12, 30)))
		}, "new", true},
		"a time where the last commit is not known": {at(clock(12, 0)), dead, func(l *Lineage) {
			l.Reach.LastCommit, l.Reach.Unsure = nil, true
		}, "new", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(archive(test.target, test.change), test.target, test.facts)
			if v.Choice == nil {
				t.Fatalf("not planned: %+v", v)
			}
			if got := v.Choice.Lineage.Chosen.ID; got != test.backup {
				t.Errorf("from backup %s, want %s", got, test.backup)
			}
			if got := v.Choice.StopAt.End(); got != test.end {
				t.Errorf("to the end: %t, want %t", got, test.end)
			}
		})
	}
}

func TestATargetThatCannotBeReachedIsRefusedWithWhatCan(t *testing.T) {
	hole := func(l *Lineage) { l.Reach.Missing = "000000010000000000000006" }
	points := func(l *Lineage) {
		l.Points = []wal.RestorePoint{{Name: "p", LSN: 0x4800000, Time: clock(11, 30)}, {Name: "p", LSN: 0x4900000, Time: clock(11, 40)}}
	}
	asked := live
	asked.Asked = clock(12, 0)
	never := live
	never.Settle, never.Asked = 0, clock(12, 0)
	for name, test := range map[string]struct {
		target Target
		facts  Facts
		change func(*Lineage)
		want   string
	}{
		"the future":                               {at(clock(14, 0)), live, nil, "is in the future (it is 2026-03-01T13:00:00Z now)"},
		"a time behind a dead archive":             {at(clock(12, 30)), dead, nil, "the last commit in it is at 2026-03-01T12:03:00Z: write a time until then, or leave spec.target out"},
		"a time behind a hole":                     {at(clock(12, 30)), dead, hole, "segment 000000010000000000000006 is missing"},
		"a time before the first backup":           {at(clock(9, 0)), dead, nil, "its oldest backup (old) leads to is 2026-03-01T10:00:00Z"},
		"the end behind a hole":                    {Target{}, dead, hole, "segment 000000010000000000000006 is missing"},
		"an LSN behind the end of a left timeline": {Target{LSN: 0x7000000, Timeline: 1}, live, func(l *Lineage) { l.Left = true }, "LSN 0/7000000 on timeline 1 can't be reached"},
		"an LSN behind the end":                    {Target{LSN: 0x7000000}, dead, nil, "ends at LSN 0/5800000"},
		"an LSN that is far away":                  {Target{LSN: 0xFFF00000000}, live, nil, "ends at LSN 0/5800000"},
		"an LSN that did not come":                 {Target{LSN: 0x7000000}, asked, nil, "ends at LSN 0/5800000"},
		"a time that never settles":                {at(clock(12, 30)), never, nil, "the last commit in it is at"},
		"an unknown restore point":                 {Target{RestorePoint: "x"}, dead, nil, `no restore point "x"`},
		"a restore point that did not come":        {Target{RestorePoint: "x"}, asked, nil, `no restore point "x"`},
		"a restore point that is there twice":      {Target{RestorePoint: "p"}, dead, points, "0/4800000 (2026-03-01T11:30:00Z) and 0/4900000"},
		"a backup whose WAL is gone":               {Target{}, dead, func(l *Lineage) { l.Reach = Reach{Missing: "000000010000000000000004"} }, "backup new can't be restored without it"},
		"a restore point before the first backup":  {Target{RestorePoint: "p"}, dead, func(l *Lineage) { l.Points = []wal.RestorePoint{{Name: "p", LSN: 0x1000000}} }, "oldest backup (old)"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(archive(test.target, test.change), test.target, test.facts)
			if v.Reason != v1alpha1.ReasonTargetUnreachable || !strings.Contains(v.Refusal, test.want) {
				t.Errorf("%s: %s; want %q (%+v)", v.Reason, v.Refusal, test.want, v)
			}
		})
	}
}

func TestWALOfALiveClusterIsAwaited(t *testing.T) {
	for name, target := range map[string]Target{
		"a time just now":                at(clock(12, 58)),
		"a time by a clock that is fast": at(clock(13, 0).Add(30 * time.Second)),
		"an LSN that is being archived":  {LSN: 0x7000000},
		"a restore point just made":      {RestorePoint: "x"},
		"a transaction of just now":      {XID: 700},
	} {
		t.Run(name, func(t *testing.T) {
			if v := Judge(archive(target, nil), target, live); v.Wait == "" {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestWithoutABackupThereIsNothingToBeginWith(t *testing.T) {
	report := Report{At: clock(13, 0), Lineages: []Lineage{{Name: "a"}}}
	if v := Judge(report, Target{}, dead); v.Reason != v1alpha1.ReasonBackupNotFound {
		t.Errorf("%+v", v)
	}
	report.Lineages[0].Damaged = []error{backup.ErrCorrupt}
	if v := Judge(report, Target{}, dead); v.Reason != v1alpha1.ReasonDataCorrupt {
		t.Errorf("with a damaged one: %+v", v)
	}
}

func TestTheNewestLineageThatBeginsBeforeTheTargetIsTaken(t *testing.T) {
	target := at(clock(10, 30))
	report := archive(target, nil)
	younger := Lineage{Name: "b", Heads: []*backup.Head{head("young", 0x100, clock(12, 30))}}
	report.Lineages = append([]Lineage{younger}, report.Lineages...)
	v := Judge(report, target, dead)
	if v.Choice == nil || v.Choice.Lineage.Name != "a" {
		t.Errorf("%+v", v)
	}
}

func TestTheWayLeadsToTheNewestTimelineThatGoesOnFromTheBackup(t *testing.T) {
	second := postgres.TimelineHistory{Timeline: 2, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 0x5000100}}}
	third := postgres.TimelineHistory{Timeline: 3, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 0x5000100}, {Timeline: 2, LSN: 0x7000100}}}
	early := postgres.TimelineHistory{Timeline: 4, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 0x3000100}}}
	h := head("h", 0x4000100, clock(11, 0))
	for name, test := range map[string]struct {
		histories []postgres.TimelineHistory
		want      []leg
	}{
		"none":                            {nil, []leg{{1, h.StartLSN, 0}}},
		"one switch":                      {[]postgres.TimelineHistory{second}, []leg{{1, h.StartLSN, 0x5000100}, {2, 0x5000100, 0}}},
		"two switches":                    {[]postgres.TimelineHistory{second, third}, []leg{{1, h.StartLSN, 0x5000100}, {2, 0x5000100, 0x7000100}, {3, 0x7000100, 0}}},
		"one that left before the backup": {[]postgres.TimelineHistory{second, early}, []leg{{1, h.StartLSN, 0x5000100}, {2, 0x5000100, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := follow(onward(test.histories, h), h)
			if len(got) != len(test.want) {
				t.Fatalf("%v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("leg %d is %v, want %v", i, got[i], test.want[i])
				}
			}
		})
	}
}

func TestTheSegmentOfASwitchIsReadFromTheYoungerTimeline(t *testing.T) {
	first, last, some := leg{1, 0x4000100, 0x6000100}.needs(seg)
	if first.Name() != "000000010000000000000004" || last.Name() != "000000010000000000000005" || !some {
		t.Errorf("%s to %s, %t", first, last, some)
	}
	if _, _, some := (leg{1, 0x4000100, 0x4000900}).needs(seg); some {
		t.Error("a leg within one segment needs none")
	}
}
