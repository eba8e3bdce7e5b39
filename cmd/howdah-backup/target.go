package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// errUnreachable is a target that no backup leads to. The text is a sentence that says what can be reached.
var errUnreachable = errors.New("unreachable")

// refusal says why a verdict is no way to its target, in the flags of the command line; nil: it is one.
func refusal(v pitr.Verdict, now time.Time) error {
	if v.Code == pitr.Reachable {
		return nil
	}
	if v.Code == pitr.NoBackup {
		if len(v.Damaged) > 0 {
			return fmt.Errorf("%w: no backup can be read: %s", backup.ErrCorrupt, strings.Join(v.Damaged, "; "))
		}
		return fmt.Errorf("%w: there is no backup", lookup.ErrNotThere)
	}
	return fmt.Errorf("%w: %s", errUnreachable, explain(v, now))
}

func explain(v pitr.Verdict, now time.Time) string {
	c := v.Candidate
	switch v.Code {
	case pitr.InFuture:
		return fmt.Sprintf("--to-time %s is in the future: it is %s now", pitr.Stamp(*v.Target.Time), pitr.Stamp(now.Truncate(time.Second)))
	case pitr.BeforeOldestBackup:
		text := fmt.Sprintf("%s can't be reached: the oldest backup, %s, can be restored to %s (LSN %s) or later",
			v.Target, v.Oldest.ID, pitr.Stamp(v.Oldest.StopTime), v.Oldest.StopLSN)
		if len(v.Damaged) > 0 {
			text += "; a backup that can't be read might lead there: " + strings.Join(v.Damaged, "; ")
		}
		return text
	case pitr.NoBackupOnTimeline:
		return fmt.Sprintf("no backup leads to timeline %d (lineage %s): its history file is not in the archive, or every backup was taken on "+
			"another timeline after this one had branched off; use --to-timeline with the timeline of a backup", c.Timeline, c.Lineage)
	case pitr.HistoryMissing:
		return fmt.Sprintf("the history file of timeline %d (%s) is missing from the archive (lineage %s), so it is unknown where that timeline begins; "+
			"use --to-timeline %d to restore what is on the previous one", c.Unlinked, postgres.HistoryName(c.Unlinked), c.Lineage, v.Before)
	case pitr.BackupIncomplete:
		return fmt.Sprintf("WAL segment %s is missing from the archive (lineage %s), and backup %s can't be restored without it; restore another backup",
			v.Missing, c.Lineage, c.Reach.Backup.ID)
	}
	return short(v)
}

// short explains what the WAL after the chosen backup lacks.
func short(v pitr.Verdict) string {
	reach := v.Candidate.Reach
	switch v.Code {
	case pitr.PointAmbiguous:
		var places []string
		for _, p := range v.Places {
			places = append(places, fmt.Sprintf("%s (%s)", p.LSN, pitr.Stamp(p.Time)))
		}
		return fmt.Sprintf("there is more than one %s after backup %s, at LSN %s; use --to-lsn instead", v.Target, reach.Backup.ID, strings.Join(places, " and "))
	case pitr.PointNotFound:
		return fmt.Sprintf("there is no %s in the archive after backup %s (%s to %s); use the name that was given to pg_create_restore_point, or --to-time",
			v.Target, reach.Backup.ID, pitr.Stamp(reach.Backup.StopTime), pitr.Stamp(v.KnownUntil()))
	case pitr.Gap:
		return fmt.Sprintf("WAL segment %s is missing from the archive, so %s can't be reached: replay leads to LSN %s, and the last commit before it is at %s; "+
			"use --to-time with an earlier time, or restore a later backup", v.Missing, v.Target, reach.EndLSN, pitr.Stamp(v.LastKnown()))
	}
	return fmt.Sprintf("%s can't be reached: the archive ends at LSN %s, and the last commit in it is at %s; "+
		"use an earlier time or LSN, or --latest for everything in the archive", v.Target, reach.EndLSN, pitr.Stamp(v.LastKnown()))
}
