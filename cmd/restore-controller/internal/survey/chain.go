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

// newest is the newest timeline with WAL.
func (r *reader) newest() uint32 {
	newest := uint32(0)
	for _, t := range r.coverage.Timelines {
		newest = max(newest, t.ID)
	}
	for _, h := range r.histories {
		newest = max(newest, h.Timeline)
	}
	return newest
}

// historyOf is the way to a timeline; one without a history is the first.
func (r *reader) historyOf(timeline uint32) postgres.TimelineHistory {
	for _, h := range r.histories {
		if h.Timeline == timeline {
			return h
		}
	}
	return postgres.TimelineHistory{Timeline: timeline}
}

// linked says that it is known where a timeline begins. The first one has no history.
func (r *reader) linked(timeline uint32) bool {
	return timeline <= 1 || len(r.historyOf(timeline).Ancestors) > 0
}

// onward is the newest timeline with WAL that goes on from a backup.
func onward(histories []postgres.TimelineHistory, head *backup.Head) postgres.TimelineHistory {
	path := postgres.TimelineHistory{Timeline: head.Timeline}
	for _, h := range histories {
		if left, related := h.Left(head.Timeline); related && h.Timeline > path.Timeline && left >= head.StopLSN {
			path = h
		}
	}
	return path
}

// follow finds the way from a backup along a path of timelines.
func follow(path postgres.TimelineHistory, head *backup.Head) []leg {
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
