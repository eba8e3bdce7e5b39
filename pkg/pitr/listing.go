package pitr

import (
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Listing is what is known of one lineage from the names in its archive and the headers of its manifests. The order of its
// parts doesn't matter, but for WAL.
type Listing struct {
	Lineage     string
	Created     time.Time
	SegmentSize uint64 // bytes; the same for all WAL of a lineage
	Backups     []Backup
	// Damaged says for each backup that can't be read what is wrong with it.
	Damaged []string
	// WAL of each timeline in the order of the segments; Archived and InPieces add to it.
	WAL       []Run
	Histories []postgres.TimelineHistory
}

// Backup is what matters of a backup here.
type Backup struct {
	ID       string
	Timeline uint32
	StartLSN postgres.LSN // where its replay begins
	StopLSN  postgres.LSN // the first position that it can be restored to
	StopTime time.Time    // the earliest time that it can be restored to
}

// FirstSegment is the first WAL segment that the backup needs.
func (b Backup) FirstSegment(segmentSize uint64) postgres.Segment {
	return postgres.SegmentOf(b.Timeline, b.StartLSN, segmentSize)
}

// LastSegment is the last WAL segment without which the backup can't be restored at all.
func (b Backup) LastSegment(segmentSize uint64) postgres.Segment {
	return postgres.SegmentBefore(b.Timeline, b.StopLSN, segmentSize)
}

// Run is a row of segments of one timeline without a gap, both ends included.
type Run struct {
	First, Last postgres.Segment
	// Open: Last is still written, and there in pieces.
	Open bool
}

// count is how many segments there are.
func (r Run) count() int64 { return int64(r.Last.Number) - int64(r.First.Number) + 1 }

// Archived adds the next segment of a timeline, in the order of the names.
func (l *Listing) Archived(segment postgres.Segment) {
	l.closeRun(segment)
	if run := l.lastRun(); run != nil && run.Last.Next() == segment {
		run.Last = segment
		return
	}
	l.WAL = append(l.WAL, Run{First: segment, Last: segment})
}

// InPieces adds a segment that is still written, of which the first piece is there. It counts if it comes right after those
// that are whole.
func (l *Listing) InPieces(segment postgres.Segment) {
	if run := l.lastRun(); run != nil && run.Last.Timeline == segment.Timeline && run.Last.Next() != segment {
		return
	}
	l.Archived(segment)
	l.lastRun().Open = true
}

// closeRun takes an open segment out that a segment of its timeline comes after: nothing continues from it. The whole segment
// itself replaces it.
func (l *Listing) closeRun(next postgres.Segment) {
	run := l.lastRun()
	if run == nil || !run.Open || run.Last.Timeline != next.Timeline {
		return
	}
	if run.Open = false; run.First == run.Last {
		l.WAL = l.WAL[:len(l.WAL)-1]
		return
	}
	run.Last.Number--
}

func (l *Listing) lastRun() *Run {
	if len(l.WAL) == 0 {
		return nil
	}
	return &l.WAL[len(l.WAL)-1]
}

// Header is what an archive knows of the content of a segment.
type Header struct {
	EndLSN     postgres.LSN // beyond the last whole record; zero: not known
	LastCommit *time.Time   // nil: there is no commit in it
}

// RestorePoint is a name that pg_create_restore_point gave to a position.
type RestorePoint struct {
	Name string
	LSN  postgres.LSN // where its record begins
	Time time.Time
}

// Headers tells what is in segments that are in the Listing. Errors end the question that was asked, and reach its caller.
type Headers interface {
	// Header of one segment.
	Header(segment postgres.Segment) (Header, error)
	// RestorePoints of that name in any of the segments, in any order.
	RestorePoints(segments []postgres.Segment, name string) ([]RestorePoint, error)
}
