// Package pitrtest is the table of cases that everybody who plans a point-in-time recovery is tested by: package pitr itself, the
// restore-controller, the command line, retention and the status of a repository.
package pitrtest

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// SegmentSize of all WAL here.
const SegmentSize = postgres.MinSegSize

// Minute is a moment of these cases. Unless a case says otherwise, segment n holds one commit of Minute(n), in its middle.
func Minute(n int) time.Time { return time.Date(2026, 3, 1, 12, n, 0, 0, time.UTC) }

// LSN is a position in a segment.
func LSN(number uint64, offset int) postgres.LSN {
	return postgres.LSN(number*SegmentSize + uint64(offset))
}

// Lineage is all that a lineage has: both what its names say and what is in it. It implements pitr.Headers.
type Lineage struct {
	Name      string
	Created   time.Time
	Backups   []pitr.Backup
	Damaged   []string // ids
	Segments  []Segment
	Histories []postgres.TimelineHistory
}

// Segment is one of the archive.
type Segment struct {
	postgres.Segment
	pitr.Header
	Open   bool // there in pieces
	Points []pitr.RestorePoint
}

// Listing is what the names of the lineage say.
func (l *Lineage) Listing() pitr.Listing {
	listing := pitr.Listing{Lineage: l.Name, Created: l.Created, SegmentSize: SegmentSize, Backups: l.Backups, Histories: l.Histories}
	for _, id := range l.Damaged {
		listing.Damaged = append(listing.Damaged, "backup "+id+" is damaged")
	}
	for _, s := range l.sorted() {
		if s.Open {
			listing.InPieces(s.Segment)
		} else {
			listing.Archived(s.Segment)
		}
	}
	return listing
}

func (l *Lineage) sorted() []Segment {
	return slices.SortedFunc(slices.Values(l.Segments), func(a, b Segment) int { return a.Compare(b.Segment) })
}

// Header implements pitr.Headers.
func (l *Lineage) Header(segment postgres.Segment) (pitr.Header, error) {
	for _, s := range l.Segments {
		if s.Segment == segment {
			return s.Header, nil
		}
	}
	panic("the header of " + segment.Name() + " is asked for, which is not there")
}

// RestorePoints implements pitr.Headers.
func (l *Lineage) RestorePoints(segments []postgres.Segment, name string) ([]pitr.RestorePoint, error) {
	var found []pitr.RestorePoint
	for _, s := range l.Segments {
		for _, p := range s.Points {
			if p.Name == name && slices.Contains(segments, s.Segment) {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// part changes a lineage while it is put together.
type part func(*Lineage)

func lineage(name string, parts ...part) Lineage {
	l := Lineage{Name: name, Created: Minute(0)}
	for _, p := range parts {
		p(&l)
	}
	return l
}

func created(minute int) part { return func(l *Lineage) { l.Created = Minute(minute) } }

// backup lies in one segment, and stopped in the minute of its number.
func backup(id string, timeline uint32, segment uint64) part {
	return backupAt(id, timeline, segment, segment, int(segment))
}

// backupAt lies in some segments, and stopped in a minute.
func backupAt(id string, timeline uint32, first, last uint64, minute int) part {
	return func(l *Lineage) {
		l.Backups = append(l.Backups, pitr.Backup{
			ID: id, Timeline: timeline, StartLSN: LSN(first, 0x28), StopLSN: LSN(last, 0x100), StopTime: Minute(minute),
		})
	}
}

// wal archives segments of a timeline, both ends included.
func wal(timeline uint32, first, last uint64) part {
	return func(l *Lineage) {
		for n := first; n <= last; n++ {
			at := Minute(int(n))
			l.Segments = append(l.Segments, Segment{
				Segment: postgres.Segment{Timeline: timeline, Number: n, SegSize: SegmentSize},
				Header:  pitr.Header{EndLSN: LSN(n, SegmentSize/2), LastCommit: &at},
			})
		}
	}
}

// open archives the pieces of a segment.
func open(timeline uint32, number uint64) part {
	return func(l *Lineage) {
		wal(timeline, number, number)(l)
		l.Segments[len(l.Segments)-1].Open = true
	}
}

// quiet takes the commits out of some segments.
func quiet(timeline uint32, first, last uint64) part {
	return func(l *Lineage) {
		for i := range l.Segments {
			if s := &l.Segments[i]; s.Timeline == timeline && first <= s.Number && s.Number <= last {
				s.LastCommit = nil
			}
		}
	}
}

// point creates a restore point.
func point(name string, timeline uint32, number uint64, offset int) part {
	return func(l *Lineage) {
		for i := range l.Segments {
			if s := &l.Segments[i]; s.Timeline == timeline && s.Number == number {
				s.Points = append(s.Points, pitr.RestorePoint{Name: name, LSN: LSN(number, offset), Time: Minute(int(number))})
			}
		}
	}
}

// history archives the history of a timeline, whose ancestors were left at these positions.
func history(timeline uint32, ancestors ...postgres.TimelineSwitch) part {
	return func(l *Lineage) {
		l.Histories = append(l.Histories, postgres.TimelineHistory{Timeline: timeline, Ancestors: ancestors})
	}
}

// left is the middle of a segment, in which a timeline was left.
func left(timeline uint32, number uint64) postgres.TimelineSwitch {
	return postgres.TimelineSwitch{Timeline: timeline, LSN: LSN(number, SegmentSize/2)}
}

func damaged(id string) part { return func(l *Lineage) { l.Damaged = append(l.Damaged, id) } }
