package pitr_test

import (
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

const size = postgres.DefaultSegSize

// clock is a time on the day of the examples.
func clock(hour, minute int) time.Time { return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC) }

// headers answers from memory. In a real archive, each segment has a header that its archiver wrote.
type headers map[string]pitr.Header

func (h headers) Header(segment postgres.Segment) (pitr.Header, error) { return h[segment.Name()], nil }

func (h headers) RestorePoints([]postgres.Segment, string) ([]pitr.RestorePoint, error) {
	return nil, nil
}

// failover is an archive with a backup of 10:00 on timeline 1, which was left in segment 5. The former primary archived segment 6,
// too, and was even backed up at 11:05. Timeline 2 continues to segment 7; its last commit is of 12:03.
func failover() (pitr.Listing, headers) {
	listing := pitr.Listing{
		Lineage: "7412345678901234567-g1", SegmentSize: size,
		Backups: []pitr.Backup{
			{ID: "morning", Timeline: 1, StartLSN: 2*size + 0x28, StopLSN: 2*size + 0x100, StopTime: clock(10, 0)},
			{ID: "stray", Timeline: 1, StartLSN: 6*size + 0x28, StopLSN: 6*size + 0x100, StopTime: clock(11, 5)},
		},
		Histories: []postgres.TimelineHistory{{Timeline: 2, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 5*size + 0x800}}}},
	}
	for n := uint64(2); n <= 6; n++ {
		listing.Archived(postgres.Segment{Timeline: 1, Number: n, SegSize: size})
	}
	for n := uint64(5); n <= 7; n++ {
		listing.Archived(postgres.Segment{Timeline: 2, Number: n, SegSize: size})
	}
	last := clock(12, 3)
	return listing, headers{"000000020000000000000007": {EndLSN: 7*size + 0x2000, LastCommit: &last}}
}

// How to get to 12:00: from which backup, along which timeline, with which WAL.
func ExampleDecide() {
	listing, headers := failover()
	at := clock(12, 0)
	target := pitr.Target{Time: &at}
	candidate, err := pitr.New(listing).Examine(target, "", headers)
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := pitr.Decide([]pitr.Candidate{candidate}, target, pitr.Facts{Now: clock(13, 0)})
	reach := verdict.Candidate.Reach
	fmt.Println(verdict.Code, "from backup", reach.Backup.ID, "along timeline", reach.Timeline)
	fmt.Println("with WAL from", reach.First(), "to", reach.Last())
	fmt.Println("stopping at", verdict.StopAt)
	// Output:
	// Reachable from backup morning along timeline 2
	// with WAL from 000000010000000000000002 to 000000020000000000000007
	// stopping at time 2026-03-01T12:00:00Z
}

// What can't be reached has a code, and fields that say what can.
func ExampleVerdict() {
	listing, headers := failover()
	at := clock(12, 30)
	target := pitr.Target{Time: &at}
	candidate, err := pitr.New(listing).Examine(target, "", headers)
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := pitr.Decide([]pitr.Candidate{candidate}, target, pitr.Facts{Now: clock(13, 0)})
	fmt.Println(verdict.Code, "LSN", verdict.Candidate.Reach.EndLSN, "of", pitr.Stamp(verdict.LastKnown()))
	// Output:
	// BeyondEnd LSN 0/7002000 of 2026-03-01T12:03:00Z
}

// All times that can be restored.
func ExampleGraph_Windows() {
	listing, headers := failover()
	recoverable, err := pitr.New(listing).Windows(headers)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, window := range recoverable.Windows {
		fmt.Println(pitr.Stamp(window.From), "to", pitr.Stamp(window.To))
	}
	// Output:
	// 2026-03-01T10:00:00Z to 2026-03-01T12:03:00Z
}

// Which backups lead to a timeline, and which WAL they need.
func ExampleGraph_Leading() {
	listing, _ := failover()
	graph := pitr.New(listing)
	for _, timeline := range graph.Timelines() {
		for _, b := range graph.Leading(timeline) {
			fmt.Printf("to timeline %d: %s, from segment %s on\n", timeline, b.ID, b.FirstSegment(size))
		}
	}
	// Output:
	// to timeline 1: stray, from segment 000000010000000000000006 on
	// to timeline 1: morning, from segment 000000010000000000000002 on
	// to timeline 2: morning, from segment 000000010000000000000002 on
}
