// Package survey finds out, from the bucket alone, whether and how a point in the history of a cluster can be restored:
// which backup to begin with, which WAL follows it, and where that ends.
package survey

import (
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// ErrNotThere is a backup or a cluster that the repository knows nothing of. The error's text is a sentence.
var ErrNotThere = errors.New("not in the repository")

// ErrAmbiguous is a question that fits more than one cluster. The error's text is a sentence.
var ErrAmbiguous = errors.New("more than one cluster")

// Question says what to look for: one backup (Lineage and BackupID), the best one of a lineage, or the best one of a
// cluster. Without any of them it is about the one cluster that the repository is of.
type Question struct {
	Lineage, BackupID string

	Cluster string
	// Namespace whose cluster of the name goes before those of other namespaces.
	Namespace string
	// ClusterUID narrows it down to that very cluster; empty: any of the name.
	ClusterUID string

	// Present is the lineage that the cluster writes now, if that is known. It goes before all others: a younger one may be
	// of a restore that was undone.
	Present string

	Target Target
}

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

// String names the target for a person.
func (t Target) String() string {
	var text, before string
	if t.excludes() && t.LSN.IsZero() {
		before = "right before "
	}
	switch {
	case t.Time != nil:
		text = before + "time " + Stamp(*t.Time)
	case !t.LSN.IsZero() && t.Inclusive != nil && *t.Inclusive:
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

// Stamp writes a time as it has to be written in spec.target.time.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00") }

// Report is what a bucket holds for a question.
type Report struct {
	At       time.Time // when reading began
	Lineages []Lineage // newest first
}

// Lineage is one place where WAL and backups of the cluster lie.
type Lineage struct {
	Name    string
	Created time.Time
	Heads   []*backup.Head // those that can be read, by the position where they stop
	Damaged []error        // what is wrong with the others
	// Path is the timeline that is followed, and those before it. Its zero value: not known, or there is but one.
	Path postgres.TimelineHistory
	// Left says that Path is not the newest timeline, so nothing more comes there.
	Left bool
	// Unlinked is a newer timeline with WAL whose history isn't in the archive, so that nothing tells where it begins; 0: none.
	Unlinked uint32
	// Points are the places of the wanted restore point, oldest first.
	Points []wal.RestorePoint
	// Chosen is the latest backup from which the target may be reached; nil: all are too young.
	Chosen *backup.Head
	Reach  Reach // of the WAL behind Chosen
}

// Reach says how far the WAL behind a backup leads.
type Reach struct {
	// Timeline that leads furthest.
	Timeline uint32
	// First and Last segment without a gap, and their number over all timelines; none if Segments is 0.
	First, Last postgres.Segment
	Segments    int64
	// EndLSN is behind the last whole record.
	EndLSN postgres.LSN
	// LastCommit is the time of the last commit behind the backup; nil: there is none, or it is Unsure.
	LastCommit *time.Time
	// Unsure: too much WAL without a commit was looked at to know.
	Unsure bool
	// Missing is the segment that isn't there although WAL behind it is; empty: none.
	Missing string
}

// covers says that everything the backup itself needs is there.
func (r Reach) covers(head *backup.Head) bool { return r.Segments > 0 && r.EndLSN >= head.StopLSN }

// lastKnown is the time of the last commit as far as known.
func (l *Lineage) lastKnown() time.Time {
	if l.Reach.LastCommit != nil {
		return *l.Reach.LastCommit
	}
	return l.Chosen.StopTime
}

// knownUntil is a time until which nothing was committed that is not in the archive: a later backup proves it.
func (l *Lineage) knownUntil() time.Time {
	known := l.lastKnown()
	for _, head := range l.Heads {
		if head.StopLSN <= l.Reach.EndLSN && head.StopTime.After(known) {
			known = head.StopTime
		}
	}
	return known
}
