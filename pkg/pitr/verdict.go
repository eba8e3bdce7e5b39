package pitr

import (
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Code says what a Verdict is.
type Code string

// The codes, each with the fields of a Verdict that it sets besides Target.
const (
	// Reachable: Candidate, with its Reach, and StopAt.
	Reachable Code = "Reachable"
	// NotArchivedYet may be reached later: Candidate, and Until, when to give up.
	NotArchivedYet Code = "NotArchivedYet"
	// InFuture is a time that has not come yet.
	InFuture Code = "InFuture"
	// NoBackup: there is none at all, or none that can be read, if Damaged isn't empty.
	NoBackup Code = "NoBackup"
	// BeforeOldestBackup: Candidate, and Oldest, the backup that leads to the earliest point. Damaged ones might lead further back.
	BeforeOldestBackup Code = "BeforeOldestBackup"
	// NoBackupOnTimeline: no backup leads to the timeline that is followed. Candidate, with Timeline.
	NoBackupOnTimeline Code = "NoBackupOnTimeline"
	// HistoryMissing: the target may lie on a timeline of which nobody knows where it begins. Candidate, with Unlinked, and
	// Before, the timeline before that one.
	HistoryMissing Code = "HistoryMissing"
	// BackupIncomplete: the backup can't be restored without WAL that is Missing. Candidate, with its Reach.
	BackupIncomplete Code = "BackupIncomplete"
	// Gap: a segment is Missing before the target. Candidate, with its Reach.
	Gap Code = "Gap"
	// BeyondEnd: the target lies beyond the end of the archive. Candidate, with its Reach.
	BeyondEnd Code = "BeyondEnd"
	// PointAmbiguous: there is more than one restore point of the name. Candidate, and Places.
	PointAmbiguous Code = "PointAmbiguous"
	// PointNotFound: there is no restore point of the name after the backup. Candidate, with its Reach.
	PointNotFound Code = "PointNotFound"
)

// Codes are all that there are.
func Codes() []Code {
	return []Code{
		Reachable, NotArchivedYet, InFuture, NoBackup, BeforeOldestBackup, NoBackupOnTimeline, HistoryMissing, BackupIncomplete, Gap,
		BeyondEnd, PointAmbiguous, PointNotFound,
	}
}

// Verdict says whether and how a target can be reached, or why it can't.
type Verdict struct {
	Code      Code
	Target    Target
	Candidate *Candidate
	// StopAt is where replay stops. Its zero value: at the end of Candidate.Reach.
	StopAt Target
	// Bound is how far Candidate.Reach led, where it may lead further by the time that it is replayed, and nothing more is wanted.
	Bound   postgres.LSN
	Missing postgres.Segment
	Oldest  Backup
	Before  uint32
	Places  []RestorePoint
	Damaged []string
	Until   time.Time
}

// LastKnown is the time of the last commit in the WAL after the chosen backup, or the end of that backup if there is none.
func (v Verdict) LastKnown() time.Time { return v.Candidate.Reach.LastKnown() }

// KnownUntil is the latest time that can be reached from the chosen backup.
func (v Verdict) KnownUntil() time.Time { return v.Candidate.graph.knownUntil(v.Candidate.Reach) }
