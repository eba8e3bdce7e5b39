package planning

import (
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Phrase says why a verdict is no way to its target, or not yet, in the words of the spec, with the reason of the condition. The
// source is what is restored: "cluster shop", "Backup shop-first".
func Phrase(v pitr.Verdict, source string, now time.Time) (reason, message string) {
	c := v.Candidate
	switch v.Code {
	case pitr.NoBackup:
		if len(v.Damaged) > 0 {
			return v1alpha1.ReasonDataCorrupt, fmt.Sprintf("No backup of %s can be read: %s.", source, strings.Join(v.Damaged, "; "))
		}
		return v1alpha1.ReasonBackupNotFound, fmt.Sprintf("The repository has no backup of %s, and replay needs one to begin with.", source)
	case pitr.NotArchivedYet:
		message = fmt.Sprintf("%s is beyond the end of the archive (LSN %s, last commit at %s). ", capital(v.Target), c.Reach.EndLSN, pitr.Stamp(v.LastKnown()))
		if !v.Until.After(now) {
			return v1alpha1.ReasonAwaitingWAL, message + "Waiting for the cluster to archive the WAL that it has written: archiving lags behind."
		}
		return v1alpha1.ReasonAwaitingWAL, message + fmt.Sprintf("Waiting for the cluster to archive more, until %s at most.", pitr.Stamp(v.Until.Truncate(time.Second)))
	case pitr.InFuture:
		message = fmt.Sprintf("spec.target.time %s is in the future (it is %s now). Write a time that has passed, or leave spec.target out.",
			pitr.Stamp(*v.Target.Time), pitr.Stamp(now.Truncate(time.Second)))
	case pitr.BeforeOldestBackup:
		message = fmt.Sprintf("%s can't be restored to %s: its oldest backup (%s) can be restored to %s (LSN %s) or later.",
			upper(source), v.Target, v.Oldest.ID, pitr.Stamp(v.Oldest.StopTime), v.Oldest.StopLSN)
		if len(v.Damaged) > 0 {
			message += " A backup that can't be read might lead there: " + strings.Join(v.Damaged, "; ") + "."
		}
	case pitr.NoBackupOnTimeline:
		message = fmt.Sprintf("No backup of %s leads to timeline %d (lineage %s): its history file is not in the archive, or every backup was taken on "+
			"another timeline after this one had branched off. Set spec.target.timeline to the timeline of a backup.", source, c.Timeline, c.Lineage)
	case pitr.HistoryMissing:
		message = fmt.Sprintf("The history file of timeline %d (%s) is missing from the archive (lineage %s), so it is unknown where that timeline begins. "+
			"Set spec.target.timeline: %d to restore what is on the previous one.", c.Unlinked, postgres.HistoryName(c.Unlinked), c.Lineage, v.Before)
	case pitr.BackupIncomplete:
		message = fmt.Sprintf("WAL segment %s is missing from the archive (lineage %s), and backup %s can't be restored without it. Restore another backup.",
			v.Missing, c.Lineage, c.Reach.Backup.ID)
	default:
		message = short(v, source)
	}
	return v1alpha1.ReasonTargetUnreachable, message
}

// short explains what the WAL after the chosen backup lacks.
func short(v pitr.Verdict, source string) string {
	reach := v.Candidate.Reach
	switch v.Code {
	case pitr.PointAmbiguous:
		var places []string
		for _, p := range v.Places {
			places = append(places, fmt.Sprintf("%s (%s)", p.LSN, pitr.Stamp(p.Time)))
		}
		return fmt.Sprintf("There is more than one restore point %q after backup %s, at LSN %s. Set spec.target.lsn instead.",
			v.Target.RestorePoint, reach.Backup.ID, strings.Join(places, " and "))
	case pitr.PointNotFound:
		return fmt.Sprintf("There is no %s in the archive after backup %s (%s to %s). Use the name that was given to pg_create_restore_point, or a time.",
			v.Target, reach.Backup.ID, pitr.Stamp(reach.Backup.StopTime), pitr.Stamp(v.KnownUntil()))
	case pitr.Gap:
		return fmt.Sprintf("WAL segment %s is missing from the archive, so %s can't be reached: replay leads to LSN %s, and the last commit before it is at %s. %s",
			v.Missing, v.Target, reach.EndLSN, pitr.Stamp(v.LastKnown()), advice(v.Target, "or restore a later backup"))
	}
	return fmt.Sprintf("%s is beyond the end of the archive of %s, which ends at LSN %s; the last commit in it is at %s. %s",
		capital(v.Target), source, reach.EndLSN, pitr.Stamp(v.LastKnown()), advice(v.Target, "or leave spec.target out"))
}

// advice is what to write instead of a target that lies too far ahead.
func advice(t pitr.Target, otherwise string) string {
	switch {
	case t.Time != nil:
		return "Write a time until then, " + otherwise + "."
	case !t.LSN.IsZero():
		return "Write a position until there, " + otherwise + "."
	}
	return "Write a time until then in spec.target.time, " + otherwise + "."
}

func capital(t pitr.Target) string { return upper(t.String()) }

// upper begins a sentence.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
