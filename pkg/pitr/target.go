package pitr

import (
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Target is the point that is wanted. The zero value is the end of the archive.
type Target struct {
	Time         *time.Time
	LSN          postgres.LSN
	RestorePoint string
	XID          int64
	Immediate    bool // at the end of the backup
	// Inclusive: what is at the target itself is wanted. Nil: it is, but for the record at LSN.
	Inclusive *bool
	// Timeline to follow; 0: the newest.
	Timeline uint32
}

// End says that all there is shall be restored, of the timeline that is followed.
func (t Target) End() bool {
	return t.Time == nil && t.LSN.IsZero() && t.RestorePoint == "" && t.XID == 0 && !t.Immediate
}

// excludes says that what is at a time or a transaction is not wanted.
func (t Target) excludes() bool { return t.Inclusive != nil && !*t.Inclusive }

// includes says that what is at the target is wanted expressly.
func (t Target) includes() bool { return t.Inclusive != nil && *t.Inclusive }

// String names the target for a person.
func (t Target) String() string {
	var text, before string
	if t.excludes() && t.LSN.IsZero() {
		before = "right before "
	}
	switch {
	case t.Time != nil:
		text = before + "time " + Stamp(*t.Time)
	case !t.LSN.IsZero() && t.includes():
		text = "the record at LSN " + t.LSN.String()
	case !t.LSN.IsZero():
		text = "LSN " + t.LSN.String()
	case t.RestorePoint != "":
		text = fmt.Sprintf("restore point %q", t.RestorePoint)
	case t.XID != 0:
		text = fmt.Sprintf("%stransaction %d", before, t.XID)
	case t.Immediate:
		text = "the end of the backup"
	case t.Timeline != 0:
		return fmt.Sprintf("the end of timeline %d", t.Timeline)
	default:
		return "the end of the archive"
	}
	if t.Timeline != 0 {
		text += fmt.Sprintf(" on timeline %d", t.Timeline)
	}
	return text
}

// Stamp writes a time as PostgreSQL keeps it, to the microsecond, in UTC.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00") }

// Follows says that the target doesn't lie before the end of a backup, so that replay to it may begin there. Of a restore point
// only its place tells, and of a transaction only replay.
func (t Target) Follows(b Backup) bool {
	switch {
	case t.Time != nil:
		return !b.StopTime.After(*t.Time)
	case !t.LSN.IsZero():
		return b.StopLSN <= t.LSN
	}
	return true
}
