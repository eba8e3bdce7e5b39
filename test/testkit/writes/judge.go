// Package writes has clients that write numbered rows while something is done to their database, and the judgement of
// what came of it: how long nothing was acknowledged, what was acknowledged and is lost, and whether two servers
// acknowledged simultaneously.
package writes

import (
	"slices"
	"time"
)

// Row is what a client wrote: its own name and a number that it uses once.
type Row struct {
	Client string
	N      int64
}

// Ack is a row that a server has acknowledged.
type Ack struct {
	Row
	// Began is when the client wanted to write it, before it connected where it had to.
	Began time.Time
	// Sent is when the client sent it, and At when it heard that it was done, on the monotonic clock of this machine.
	Sent, At time.Time
	// Server is the address of who acknowledged it, and Timeline the one that it wrote on.
	Server, Timeline string
}

// Failure is a write that came to an error.
type Failure struct {
	Row
	// Sent is when the client began with it, and At when it heard of the error.
	Sent, At time.Time
	Err      error
}

// Reign names a server's time as the primary: one that becomes it again is on another timeline.
func (a Ack) Reign() string { return a.Server + " on timeline " + a.Timeline }

// Longest is the longest time within a span in which nothing was acknowledged. A gap that the span begins or ends in
// counts in full to its side inside.
func Longest(acks []Ack, from, to time.Time) time.Duration {
	last, longest := from, time.Duration(0)
	for _, ack := range ordered(acks) {
		if ack.At.Before(from) {
			continue
		}
		if ack.At.After(to) {
			break
		}
		longest = max(longest, ack.At.Sub(last))
		last = ack.At
	}
	return max(longest, to.Sub(last))
}

// Lost are the acknowledged rows that are not present.
func Lost(acks []Ack, present map[Row]bool) []Ack {
	var lost []Ack
	for _, ack := range acks {
		if !present[ack.Row] {
			lost = append(lost, ack)
		}
	}
	return lost
}

// Doubled are the acknowledgements of a server that came when another one that began to reign later had acknowledged
// something already. One whose row is there, and was sent before that, is none: it was committed while its server reigned, as the
// later one has it, and only the answer was late, as that of a machine that stood still.
func Doubled(acks []Ack, present map[Row]bool) []Ack {
	var doubled []Ack
	seen, latest, since := map[string]bool{}, "", time.Time{}
	for _, ack := range ordered(acks) {
		switch reign := ack.Reign(); {
		case reign == latest:
		case seen[reign] && present[ack.Row] && ack.Sent.Before(since):
		case seen[reign]:
			doubled = append(doubled, ack)
		default:
			seen[reign], latest, since = true, reign, ack.At
		}
	}
	return doubled
}

// Failovers counts how often another timeline was begun.
func Failovers(acks []Ack) int {
	seen := map[string]bool{}
	for _, ack := range acks {
		seen[ack.Timeline] = true
	}
	return max(0, len(seen)-1)
}

func ordered(acks []Ack) []Ack {
	sorted := slices.Clone(acks)
	slices.SortStableFunc(sorted, func(a, b Ack) int { return a.At.Compare(b.At) })
	return sorted
}
