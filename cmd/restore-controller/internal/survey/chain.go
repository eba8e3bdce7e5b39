package survey

import (
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

// leg is a stretch of WAL on one timeline. The last leg has no end.
type leg struct {
	timeline uint32
	from, to postgres.LSN
}

// follow finds the way from a backup to the newest timeline that goes on from it.
func follow(histories []postgres.TimelineHistory, head *backup.Head) []leg {
	path := postgres.TimelineHistory{Timeline: head.Timeline}
	for _, h := range histories {
		if left, related := h.Left(head.Timeline); related && h.Timeline > path.Timeline && left >= head.StopLSN {
			path = h
		}
	}
	var legs []leg
	from, behind := head.StartLSN, false
	for _, ancestor := range path.Ancestors {
		behind = behind || ancestor.Timeline == head.Timeline
		if behind {
			legs = append(legs, leg{ancestor.Timeline, from, ancestor.LSN})
			from = ancestor.LSN
		}
	}
	return append(legs, leg{timeline: path.Timeline, from: from})
}

// needs are the first and the last segment of a leg that replay reads. A segment in which a timeline begins is read
// from the younger one. False: the leg lies within one segment that is read from the next timeline.
func (l leg) needs(segSize uint64) (first, last postgres.Segment, any bool) {
	first = postgres.SegmentOf(l.timeline, l.from, segSize)
	last = postgres.SegmentOf(l.timeline, l.to, segSize)
	if last.Number == 0 {
		return first, last, false
	}
	last.Number--
	return first, last, first.Number <= last.Number
}
