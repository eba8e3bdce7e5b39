package pitrtest

import (
	"time"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Case is a question and its answer.
type Case struct {
	Name     string
	Lineages []Lineage
	Target   pitr.Target
	BackupID string // of the only lineage; empty: any
	Facts    pitr.Facts
	Want     Want
}

// Want is what a Verdict says.
type Want struct {
	Code pitr.Code
	// Of Reachable, and of every code that speaks of a Reach.
	Lineage, Backup string
	Timeline        uint32
	Last            string // segment
	End             bool   // replay has no target to stop at
	Bound           postgres.LSN
	// Missing is the segment that is named.
	Missing string
	// Unlinked is the timeline whose history is missing.
	Unlinked uint32
	Places   int
}

// Live says that the case speaks of an archive that somebody writes.
func (c *Case) Live() bool { return c.Facts.Live != "" }

// Names of the lineages. That of an undone restore is the later one.
const (
	First  = "7412345678901234567-g1"
	Second = "7412345678901234567-g2"
)

func segment(timeline uint32, number uint64) string {
	l := lineage("")
	wal(timeline, number, number)(&l)
	return l.Segments[0].Name()
}

func reaches(backup string, timeline uint32, last uint64) Want {
	return Want{Code: pitr.Reachable, Lineage: First, Backup: backup, Timeline: timeline, Last: segment(timeline, last)}
}

func toTheEnd(backup string, timeline uint32, last uint64) Want {
	w := reaches(backup, timeline, last)
	w.End = true
	return w
}

// bounded is a way to the end that is known now, whatever is archived meanwhile.
func bounded(w Want, at postgres.LSN) Want {
	w.Bound = at
	return w
}

func at(minute int) pitr.Target {
	t := Minute(minute)
	return pitr.Target{Time: &t}
}

func justAfter(minute int) pitr.Target {
	t := Minute(minute).Add(time.Second)
	return pitr.Target{Time: &t}
}

func exclusive(t pitr.Target) pitr.Target {
	no := false
	t.Inclusive = &no
	return t
}

func inclusive(t pitr.Target) pitr.Target {
	yes := true
	t.Inclusive = &yes
	return t
}

func on(timeline uint32, t pitr.Target) pitr.Target {
	t.Timeline = timeline
	return t
}

var (
	dead = pitr.Facts{Now: Minute(58), Read: Minute(58), Asked: Minute(57)}
	live = pitr.Facts{Now: Minute(58), Read: Minute(58), Asked: Minute(57), Live: First, Settle: 6 * time.Minute}
)

// shop has backups in segments 2 and 10, and WAL up to segment 14, whose last commit is in segment 13.
func shop(parts ...part) []Lineage {
	return []Lineage{lineage(First, append([]part{backup("old", 1, 2), backup("new", 1, 10), wal(1, 2, 14), quiet(1, 14, 14)}, parts...)...)}
}

// failedOver has a failover in segment 5: what the former primary archived after it, in segments 5 to 7 of timeline 1, is on no
// path. Timeline 2 has segments 5 to 9.
func failedOver(parts ...part) []Lineage {
	return []Lineage{lineage(First, append([]part{backup("before", 1, 2), wal(1, 2, 7), wal(2, 5, 9), history(2, left(1, 5))}, parts...)...)}
}

// undone has a lineage that a restore in place began in minute 10, which was undone: the one before it is written on.
func undone() []Lineage {
	return []Lineage{
		lineage(First, backup("kept", 1, 2), wal(1, 2, 30)),
		lineage(Second, created(10), backup("left", 1, 11), wal(1, 11, 12)),
	}
}

// without takes segments of a timeline away.
func without(timeline uint32, number uint64) part {
	return func(l *Lineage) {
		kept := l.Segments[:0]
		for _, s := range l.Segments {
			if s.Timeline != timeline || s.Number != number {
				kept = append(kept, s)
			}
		}
		l.Segments = kept
	}
}

// withoutHistories takes all history files away.
func withoutHistories(l *Lineage) { l.Histories = nil }

// Cases are all of them.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{faults(), reached(), refused(), awaited(), timelines(), lineages()} {
		for _, c := range group {
			if c.Facts.Now.IsZero() {
				c.Facts = dead
			}
			all = append(all, c)
		}
	}
	return all
}

// faults are those that one planner had and another hadn't.
func faults() []Case {
	return []Case{
		{Name: "a backup that was taken on an abandoned timeline is passed over",
			Lineages: failedOver(backup("stray", 1, 6)), Want: toTheEnd("before", 2, 9)},
		{Name: "a new timeline goes before the one that it left, though that has later WAL and a backup there",
			Lineages: []Lineage{lineage(First, backup("before", 1, 2), wal(1, 2, 14), backup("stray", 1, 10), wal(2, 5, 7), history(2, left(1, 5)))}, Want: toTheEnd("before", 2, 7)},
		{Name: "a restore point that is archived on two timelines counts once",
			Lineages: failedOver(point("p", 1, 5, 0x200), point("p", 2, 5, 0x200)), Target: pitr.Target{RestorePoint: "p"}, Want: reaches("before", 2, 9)},
		{Name: "a newer timeline whose history is missing is named",
			Lineages: failedOver(withoutHistories), Want: Want{Code: pitr.HistoryMissing, Lineage: First, Unlinked: 2}},
		{Name: "the lineage that was written last goes before a younger one of an undone restore",
			Lineages: undone(), Want: toTheEnd("kept", 1, 30)},
		{Name: "and so it does for a time that both have",
			Lineages: undone(), Target: at(12), Want: reaches("kept", 1, 30)},
		{Name: "a backup on an abandoned timeline proves nothing of the one that is followed",
			Lineages: failedOver(quiet(2, 9, 9), backupAt("stray", 1, 6, 6, 20)), Target: at(15), Want: Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "before", Timeline: 2}},
		{Name: "an older lineage is not taken instead of one whose history is missing",
			Lineages: []Lineage{lineage(First, backup("older", 1, 1), wal(1, 1, 2)),
				lineage(Second, created(2), backup("before", 1, 3), wal(1, 3, 7), wal(2, 5, 9))},
			Want: Want{Code: pitr.HistoryMissing, Lineage: Second, Unlinked: 2}},
		{Name: "a position in the rest of the last segment is its end",
			Lineages: shop(), Target: pitr.Target{LSN: LSN(14, SegmentSize-16)}, Want: toTheEnd("new", 1, 14)},
	}
}

func reached() []Case {
	return []Case{
		{Name: "the end", Lineages: shop(), Want: toTheEnd("new", 1, 14)},
		{Name: "the end of the backup", Lineages: shop(), Target: pitr.Target{Immediate: true}, Want: reaches("new", 1, 14)},
		{Name: "the end of the backup, with a gap after it", Lineages: shop(without(1, 12)), Target: pitr.Target{Immediate: true}, Want: reaches("new", 1, 11)},
		{Name: "a time beyond both backups", Lineages: shop(), Target: at(12), Want: reaches("new", 1, 14)},
		{Name: "a time between the backups", Lineages: shop(), Target: at(7), Want: reaches("old", 1, 14)},
		{Name: "the very time at which a backup stopped", Lineages: shop(), Target: at(10), Want: reaches("new", 1, 14)},
		{Name: "the very time of the last commit", Lineages: shop(), Target: at(13), Want: toTheEnd("new", 1, 14)},
		{Name: "right before the time of the last commit", Lineages: shop(), Target: exclusive(at(13)), Want: reaches("new", 1, 14)},
		{Name: "a time that a later backup proves to be quiet", Lineages: shop(backupAt("later", 1, 14, 14, 30)), Target: at(20), Want: toTheEnd("new", 1, 14)},
		{Name: "a time before a gap", Lineages: shop(without(1, 13)), Target: justAfter(11), Want: reaches("new", 1, 12)},
		{Name: "a time that a later backup after a gap is at", Lineages: shop(without(1, 7)), Target: at(10), Want: reaches("new", 1, 14)},
		{Name: "a position", Lineages: shop(), Target: pitr.Target{LSN: LSN(12, 0)}, Want: reaches("new", 1, 14)},
		{Name: "a position between the backups", Lineages: shop(), Target: pitr.Target{LSN: LSN(5, 0)}, Want: reaches("old", 1, 14)},
		{Name: "the record at a position", Lineages: shop(), Target: inclusive(pitr.Target{LSN: LSN(12, 0)}), Want: reaches("new", 1, 14)},
		{Name: "a restore point", Lineages: shop(point("p", 1, 12, 0x80)), Target: pitr.Target{RestorePoint: "p"}, Want: reaches("new", 1, 14)},
		{Name: "a restore point between the backups", Lineages: shop(point("p", 1, 5, 0x80)), Target: pitr.Target{RestorePoint: "p"}, Want: reaches("old", 1, 14)},
		{Name: "a transaction", Lineages: shop(), Target: pitr.Target{XID: 700}, Want: reaches("new", 1, 14)},
		{Name: "the end of a backup that is asked for", Lineages: shop(), BackupID: "old", Target: pitr.Target{Immediate: true}, Want: reaches("old", 1, 14)},
		{Name: "the end, from a backup that is asked for", Lineages: shop(), BackupID: "old", Want: toTheEnd("old", 1, 14)},
		{Name: "the end in a segment that is still written", Lineages: shop(open(1, 15)), Want: toTheEnd("new", 1, 15)},
		{Name: "a time in a segment that is still written", Lineages: shop(open(1, 15)), Target: at(14), Want: reaches("new", 1, 15)},
		{Name: "a time after all commits of a segment that is still written", Lineages: shop(open(1, 15)), Target: at(15), Want: bounded(toTheEnd("new", 1, 15), LSN(15, SegmentSize/2))},
		{Name: "a position in a segment that is still written", Lineages: shop(open(1, 15)), Target: pitr.Target{LSN: LSN(15, 0x80)}, Want: reaches("new", 1, 15)},
		{Name: "the end of a segment that is still written", Lineages: shop(open(1, 15)), Target: pitr.Target{LSN: LSN(15, SegmentSize/2)}, Want: bounded(toTheEnd("new", 1, 15), LSN(15, SegmentSize/2))},
		{Name: "a position behind the last record", Lineages: shop(), Target: pitr.Target{LSN: LSN(14, SegmentSize/2+8)}, Want: toTheEnd("new", 1, 14)},
	}
}

func refused() []Case {
	beyond := Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "new", Timeline: 1}
	gap := func(backup string, number uint64) Want {
		return Want{Code: pitr.Gap, Lineage: First, Backup: backup, Timeline: 1, Missing: segment(1, number)}
	}
	return []Case{
		{Name: "a time in the future", Lineages: shop(), Target: at(70), Want: Want{Code: pitr.InFuture}},
		{Name: "a time beyond the end", Lineages: shop(), Target: at(20), Want: beyond},
		{Name: "a position beyond the end", Lineages: shop(), Target: pitr.Target{LSN: LSN(20, 0)}, Want: beyond},
		{Name: "a position that a segment in pieces may have had", Lineages: shop(open(1, 15)), Target: pitr.Target{LSN: LSN(15, SegmentSize/2+8)}, Want: beyond},
		{Name: "a time before the oldest backup", Lineages: shop(), Target: at(1), Want: Want{Code: pitr.BeforeOldestBackup, Lineage: First}},
		{Name: "a position before the oldest backup", Lineages: shop(), Target: pitr.Target{LSN: LSN(1, 0)}, Want: Want{Code: pitr.BeforeOldestBackup, Lineage: First}},
		{Name: "a time before the oldest backup, and a damaged one", Lineages: shop(damaged("bad")), Target: at(1), Want: Want{Code: pitr.BeforeOldestBackup, Lineage: First}},
		{Name: "the end after a gap", Lineages: shop(without(1, 13)), Want: gap("new", 13)},
		{Name: "a time after a gap", Lineages: shop(without(1, 13)), Target: at(13), Want: gap("new", 13)},
		{Name: "a time between a gap and the next backup", Lineages: shop(without(1, 7)), Target: at(8), Want: gap("old", 7)},
		{Name: "a position after a gap", Lineages: shop(without(1, 12)), Target: pitr.Target{LSN: LSN(13, 0)}, Want: gap("new", 12)},
		{Name: "a restore point after a gap", Lineages: shop(point("p", 1, 14, 0x80), without(1, 13)), Target: pitr.Target{RestorePoint: "p"}, Want: gap("new", 13)},
		{Name: "a backup without its WAL", Lineages: shop(without(1, 10)), Target: at(12),
			Want: Want{Code: pitr.BackupIncomplete, Lineage: First, Backup: "new", Timeline: 1, Missing: segment(1, 10)}},
		{Name: "a backup without its later WAL", Lineages: shop(backupAt("long", 1, 11, 12, 12), without(1, 12)), Target: pitr.Target{Immediate: true},
			Want: Want{Code: pitr.BackupIncomplete, Lineage: First, Backup: "long", Timeline: 1, Missing: segment(1, 12)}},
		{Name: "a restore point that there isn't", Lineages: shop(), Target: pitr.Target{RestorePoint: "never"},
			Want: Want{Code: pitr.PointNotFound, Lineage: First, Backup: "new", Timeline: 1}},
		{Name: "a restore point that there is twice", Lineages: shop(point("p", 1, 12, 0x80), point("p", 1, 13, 0x80)), Target: pitr.Target{RestorePoint: "p"},
			Want: Want{Code: pitr.PointAmbiguous, Lineage: First, Backup: "new", Timeline: 1, Places: 2}},
		{Name: "a restore point before every backup", Lineages: shop(wal(1, 1, 1), backupAt("early", 1, 1, 4, 4), point("p", 1, 1, 0x80)), BackupID: "early",
			Target: pitr.Target{RestorePoint: "p"}, Want: Want{Code: pitr.BeforeOldestBackup, Lineage: First}},
		{Name: "no backup", Lineages: []Lineage{lineage(First, wal(1, 2, 5))}, Want: Want{Code: pitr.NoBackup}},
		{Name: "no backup that can be read", Lineages: []Lineage{lineage(First, wal(1, 2, 5), damaged("bad"))}, Want: Want{Code: pitr.NoBackup}},
		{Name: "no WAL", Lineages: []Lineage{lineage(First, backup("alone", 1, 2))},
			Want: Want{Code: pitr.BackupIncomplete, Lineage: First, Backup: "alone", Timeline: 1, Missing: segment(1, 2)}},
	}
}

func awaited() []Case {
	wait := Want{Code: pitr.NotArchivedYet, Lineage: First, Backup: "new", Timeline: 1}
	asked := live
	asked.Asked = Minute(30)
	never := asked
	never.Settle = 0
	late, lateAfter := live, live
	late.Behind, lateAfter.Behind = Minute(20), Minute(40)
	justNow := at(58)
	fast := Minute(58).Add(30 * time.Second)
	return []Case{
		{Name: "a time just now", Facts: live, Lineages: shop(), Target: justNow, Want: wait},
		{Name: "a time by a clock that is fast", Facts: live, Lineages: shop(), Target: pitr.Target{Time: &fast}, Want: wait},
		{Name: "a position that is being archived", Facts: live, Lineages: shop(), Target: pitr.Target{LSN: LSN(20, 0)}, Want: wait},
		{Name: "a restore point that was just created", Facts: live, Lineages: shop(), Target: pitr.Target{RestorePoint: "p"}, Want: wait},
		{Name: "a transaction of just now", Facts: live, Lineages: shop(), Target: pitr.Target{XID: 700}, Want: wait},
		{Name: "a time until which a live, quiet cluster archived nothing", Facts: live, Lineages: shop(), Target: at(30), Want: toTheEnd("new", 1, 14)},
		{Name: "a time that a live cluster has not archived yet", Facts: late, Lineages: shop(), Target: at(30), Want: wait},
		{Name: "a time after which archiving began to lag", Facts: lateAfter, Lineages: shop(), Target: at(30), Want: toTheEnd("new", 1, 14)},
		{Name: "a transaction that a live cluster has not archived yet", Facts: late, Lineages: shop(), Target: pitr.Target{XID: 700}, Want: wait},
		{Name: "a position that a segment in pieces is about to have", Facts: live, Lineages: shop(open(1, 15)), Target: pitr.Target{LSN: LSN(15, SegmentSize/2+8)}, Want: wait},
		{Name: "a position that is far away", Facts: live, Lineages: shop(), Target: pitr.Target{LSN: 0xFFF00000000}, Want: Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "new", Timeline: 1}},
		{Name: "a position that did not come", Facts: asked, Lineages: shop(), Target: pitr.Target{LSN: LSN(20, 0)}, Want: Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "new", Timeline: 1}},
		{Name: "a restore point that did not come", Facts: asked, Lineages: shop(), Target: pitr.Target{RestorePoint: "p"}, Want: Want{Code: pitr.PointNotFound, Lineage: First, Backup: "new", Timeline: 1}},
		{Name: "a time that never settles", Facts: never, Lineages: shop(), Target: at(40), Want: Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "new", Timeline: 1}},
		{Name: "a time after a gap comes never", Facts: live, Lineages: shop(without(1, 13)), Target: justNow,
			Want: Want{Code: pitr.Gap, Lineage: First, Backup: "new", Timeline: 1, Missing: segment(1, 13)}},
		{Name: "nothing comes on a timeline that was left", Facts: live, Lineages: failedOver(), Target: on(1, pitr.Target{LSN: LSN(20, 0)}),
			Want: Want{Code: pitr.BeyondEnd, Lineage: First, Backup: "before", Timeline: 1}},
	}
}

func timelines() []Case {
	third := history(3, left(1, 5), left(2, 9))
	return []Case{
		{Name: "the end of the newest timeline", Lineages: failedOver(), Want: toTheEnd("before", 2, 9)},
		{Name: "the end of two switches", Lineages: failedOver(third, wal(3, 9, 12)), Want: toTheEnd("before", 3, 12)},
		{Name: "a timeline that has just begun counts for nothing yet", Lineages: failedOver(third), Want: toTheEnd("before", 2, 9)},
		{Name: "a timeline that was left, if it is asked for", Lineages: failedOver(), Target: pitr.Target{Timeline: 1}, Want: toTheEnd("before", 1, 7)},
		{Name: "a backup on a timeline that was left, if that is asked for", Lineages: failedOver(backup("stray", 1, 6)), Target: pitr.Target{Timeline: 1}, Want: toTheEnd("stray", 1, 7)},
		{Name: "the timeline that continues from a backup that is asked for", Lineages: failedOver(), BackupID: "before", Want: toTheEnd("before", 2, 9)},
		{Name: "the timeline of an abandoned backup that is asked for", Lineages: failedOver(backup("stray", 1, 6)), BackupID: "stray", Want: toTheEnd("stray", 1, 7)},
		{Name: "a backup of the newest timeline", Lineages: failedOver(backup("after", 2, 7)), Want: toTheEnd("after", 2, 9)},
		{Name: "a timeline that there isn't", Lineages: failedOver(), Target: pitr.Target{Timeline: 9}, Want: Want{Code: pitr.NoBackupOnTimeline, Lineage: First}},
		{Name: "a timeline that no backup leads to", Lineages: []Lineage{lineage(First, backup("stray", 1, 6), wal(1, 5, 7), wal(2, 5, 9), history(2, left(1, 5)))},
			Want: Want{Code: pitr.NoBackupOnTimeline, Lineage: First}},
		{Name: "the timeline before one whose history is missing, if it is asked for", Lineages: failedOver(withoutHistories), Target: pitr.Target{Timeline: 1}, Want: toTheEnd("before", 1, 7)},
		{Name: "the end of a backup, though a history is missing", Lineages: failedOver(withoutHistories), BackupID: "before", Target: pitr.Target{Immediate: true}, Want: reaches("before", 1, 7)},
		{Name: "the end of a backup that is asked for, and a history is missing", Lineages: failedOver(withoutHistories), BackupID: "before",
			Want: Want{Code: pitr.HistoryMissing, Lineage: First, Unlinked: 2}},
		{Name: "a backup on a timeline whose history is missing", Lineages: failedOver(withoutHistories, backup("after", 2, 7)), Want: toTheEnd("after", 2, 9)},
		{Name: "a time before that backup", Lineages: failedOver(withoutHistories, backup("after", 2, 7)), Target: at(4), Want: Want{Code: pitr.HistoryMissing, Lineage: First, Unlinked: 2}},
		{Name: "a time before a failover", Lineages: failedOver(), Target: at(4), Want: reaches("before", 2, 9)},
		{Name: "a restore point on an abandoned timeline", Lineages: failedOver(point("q", 1, 6, 0x80)), Target: pitr.Target{RestorePoint: "q"},
			Want: Want{Code: pitr.PointNotFound, Lineage: First, Backup: "before", Timeline: 2}},
		{Name: "a restore point after a failover", Lineages: failedOver(point("q", 2, 6, 0x80)), Target: pitr.Target{RestorePoint: "q"}, Want: reaches("before", 2, 9)},
		{Name: "a restore point after a failover, on the timeline that was left", Lineages: failedOver(point("q", 2, 6, 0x80)), Target: on(1, pitr.Target{RestorePoint: "q"}),
			Want: Want{Code: pitr.PointNotFound, Lineage: First, Backup: "before", Timeline: 1}},
		{Name: "a gap before a failover", Lineages: failedOver(without(1, 4)), Want: Want{Code: pitr.Gap, Lineage: First, Backup: "before", Timeline: 2, Missing: segment(1, 4)}},
		{Name: "the first segment of a timeline is missing", Lineages: failedOver(without(2, 5)), Want: Want{Code: pitr.Gap, Lineage: First, Backup: "before", Timeline: 2, Missing: segment(2, 5)}},
		{Name: "what was left behind a failover isn't needed", Lineages: failedOver(without(1, 5), without(1, 6), without(1, 7)), Want: toTheEnd("before", 2, 9)},
		{Name: "no timeline continues from a segment that is there in pieces", Lineages: []Lineage{lineage(First, backup("before", 1, 2), wal(1, 2, 3), open(1, 4), wal(2, 5, 9), history(2, left(1, 5)))},
			Want: Want{Code: pitr.Gap, Lineage: First, Backup: "before", Timeline: 2, Missing: segment(1, 4)}},
	}
}

func lineages() []Case {
	return []Case{
		{Name: "a time before a restore in place is in the lineage before it", Target: at(7), Lineages: []Lineage{
			lineage(First, backup("old", 1, 2), wal(1, 2, 9)), lineage(Second, created(10), backup("new", 1, 11), wal(1, 11, 15)),
		}, Want: reaches("old", 1, 9)},
		{Name: "the end after a restore in place is that of its lineage", Lineages: []Lineage{
			lineage(First, backup("old", 1, 2), wal(1, 2, 9)), lineage(Second, created(10), backup("new", 1, 11), wal(1, 11, 15)),
		}, Want: Want{Code: pitr.Reachable, Lineage: Second, Backup: "new", Timeline: 1, Last: segment(1, 15), End: true}},
		{Name: "a restore point is found in the lineage that has it", Target: pitr.Target{RestorePoint: "p"}, Lineages: []Lineage{
			lineage(First, backup("old", 1, 2), wal(1, 2, 9), point("p", 1, 5, 0x80)), lineage(Second, created(10), backup("new", 1, 11), wal(1, 11, 15)),
		}, Want: reaches("old", 1, 9)},
		{Name: "the lineage that the cluster writes goes before one with later commits", Lineages: []Lineage{
			lineage(First, backup("old", 1, 2), wal(1, 2, 9)), lineage(Second, created(10), backup("new", 1, 11), wal(1, 11, 15)),
		}, Facts: pitr.Facts{Now: Minute(58), Read: Minute(58), Asked: Minute(57), Present: First}, Want: toTheEnd("old", 1, 9)},
		{Name: "a gap in the lineage that was written last doesn't make another one the last", Target: at(12), Lineages: []Lineage{
			lineage(First, backup("kept", 1, 2), wal(1, 2, 30), without(1, 6)), lineage(Second, created(10), backup("left", 1, 11), wal(1, 11, 12)),
		}, Want: Want{Code: pitr.Gap, Lineage: First, Backup: "kept", Timeline: 1, Missing: segment(1, 6)}},
	}
}
