// Package writes has clients that write numbered rows while something is done to their database, and the judgement of
// what came of it: how long nothing was acknowledged, what was acknowledged and is lost, and whether two servers
// acknowledged at one time.
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
	At time.Time // when the client heard of it, on the monotonic clock of this machine
	// Reign names the server, and the timeline that it wrote on: one that becomes the primary again begins another one.
	Reign string
}

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
// something already.
func Doubled(acks []Ack) []Ack {
	var doubled []Ack
	seen, latest := map[string]bool{}, ""
	for _, ack := range ordered(acks) {
		switch {
		case ack.Reign == latest:
		case seen[ack.Reign]:
			doubled = append(doubled, ack)
		default:
			seen[ack.Reign], latest = true, ack.Reign
		}
	}
	return doubled
}

// Reigns counts the servers that acknowledged one after the other.
func Reigns(acks []Ack) int {
	seen := map[string]bool{}
	for _, ack := range acks {
		seen[ack.Reign] = true
	}
	return len(seen)
}

func ordered(acks []Ack) []Ack {
	sorted := slices.Clone(acks)
	slices.SortStableFunc(sorted, func(a, b Ack) int { return a.At.Compare(b.At) })
	return sorted
}
