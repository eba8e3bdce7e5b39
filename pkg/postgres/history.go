package postgres

import (
	"fmt"
	"strconv"
	"strings"
)

// TimelineSwitch is one line of a timeline history file: Timeline was left at LSN for the next one.
type TimelineSwitch struct {
	Timeline uint32
	LSN      LSN
	Reason   string
}

// TimelineHistory is how a timeline came to be: its ancestors, oldest first. Timeline 1 has none.
type TimelineHistory struct {
	Timeline  uint32
	Ancestors []TimelineSwitch
}

// ParseTimelineHistory reads the content of <timeline>.history.
func ParseTimelineHistory(timeline uint32, content []byte) (TimelineHistory, error) {
	history := TimelineHistory{Timeline: timeline}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		ancestor, err := parseSwitch(line)
		if err != nil {
			return TimelineHistory{}, fmt.Errorf("history of timeline %d: %w", timeline, err)
		}
		if err := history.follows(ancestor); err != nil {
			return TimelineHistory{}, err
		}
		history.Ancestors = append(history.Ancestors, ancestor)
	}
	return history, nil
}

func parseSwitch(line string) (TimelineSwitch, error) {
	id, rest, _ := strings.Cut(line, "\t")
	at, reason, _ := strings.Cut(rest, "\t")
	timeline, err := strconv.ParseUint(strings.TrimSpace(id), 10, 32)
	if err != nil || timeline == 0 {
		return TimelineSwitch{}, fmt.Errorf("%w line %q: no timeline", ErrSyntax, line)
	}
	lsn, err := ParseLSN(strings.TrimSpace(at))
	if err != nil {
		return TimelineSwitch{}, err
	}
	return TimelineSwitch{Timeline: uint32(timeline), LSN: lsn, Reason: reason}, nil
}

// follows refuses what PostgreSQL refuses: timelines that don't grow.
func (h TimelineHistory) follows(next TimelineSwitch) error {
	last := uint32(0)
	if n := len(h.Ancestors); n > 0 {
		last = h.Ancestors[n-1].Timeline
	}
	if next.Timeline <= last || next.Timeline >= h.Timeline {
		return fmt.Errorf("history of timeline %d: %w: timeline %d after %d", h.Timeline, ErrSyntax, next.Timeline, last)
	}
	return nil
}

// At is the timeline that the byte at lsn was written on.
func (h TimelineHistory) At(lsn LSN) uint32 {
	for _, ancestor := range h.Ancestors {
		if lsn < ancestor.LSN {
			return ancestor.Timeline
		}
	}
	return h.Timeline
}

// Left is where this history left the given timeline; zero for the timeline itself. It is false
// for a timeline that is not part of this history.
func (h TimelineHistory) Left(timeline uint32) (LSN, bool) {
	for _, ancestor := range h.Ancestors {
		if ancestor.Timeline == timeline {
			return ancestor.LSN, true
		}
	}
	return 0, timeline == h.Timeline
}
