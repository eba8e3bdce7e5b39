package pitr

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// quiet has a commit in one segment only.
type quiet struct {
	commit uint64
	asked  int
}

func (q *quiet) Header(s postgres.Segment) (Header, error) {
	q.asked++
	if s.Number == q.commit {
		at := time.Unix(100, 0)
		return Header{LastCommit: &at}, nil
	}
	return Header{}, nil
}

func (q *quiet) RestorePoints([]postgres.Segment, string) ([]RestorePoint, error) { return nil, nil }

func TestThatTooMuchWALHasNoCommitIsSaid(t *testing.T) {
	last := postgres.Segment{Timeline: 1, Number: 5000, SegSize: postgres.MinSegSize}
	listing := Listing{SegmentSize: postgres.MinSegSize, Backups: []Backup{{ID: "b", Timeline: 1, StartLSN: 2<<20 + 8, StopLSN: 2<<20 + 16, StopTime: time.Unix(10, 0)}}}
	for n := uint64(2); n <= last.Number; n++ {
		listing.Archived(postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.MinSegSize})
	}
	for name, test := range map[string]struct {
		commit uint64
		unsure bool
	}{
		"a commit far back":     {5000 - commitDepth, true},
		"a commit close by":     {5000 - commitDepth + 1, false},
		"a commit at the end":   {5000, false},
		"a commit in the first": {2, true},
	} {
		headers := &quiet{commit: test.commit}
		found, err := New(listing).Windows(headers)
		if err != nil || len(found.Windows) != 1 || found.Windows[0].Unsure != test.unsure || headers.asked > commitDepth {
			t.Errorf("%s: %+v, %v, after %d headers", name, found, err, headers.asked)
		}
		at := time.Unix(200, 0)
		c, err := New(listing).Examine(Target{Time: &at}, "", headers)
		if err != nil {
			t.Fatal(err)
		}
		if v := Decide([]Candidate{c}, Target{Time: &at}, Facts{Now: at}); (v.Code == Reachable) != test.unsure {
			t.Errorf("%s: %s", name, v.Code)
		}
	}
}

func TestAWindowAsksForEachHeaderOnce(t *testing.T) {
	listing := Listing{SegmentSize: postgres.MinSegSize}
	for n := uint64(2); n <= 40; n++ {
		listing.Archived(postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.MinSegSize})
		listing.Backups = append(listing.Backups, Backup{
			Timeline: 1, StartLSN: postgres.LSN(n<<20 + 8), StopLSN: postgres.LSN(n<<20 + 16), StopTime: time.Unix(int64(n), 0),
		})
	}
	headers := &quiet{}
	if _, err := New(listing).Windows(headers); err != nil || headers.asked != 39 {
		t.Errorf("%d headers, %v", headers.asked, err)
	}
}

func TestAnOpenSegmentCountsRightBehindWholeOnesOnly(t *testing.T) {
	s := func(n uint64) postgres.Segment {
		return postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.MinSegSize}
	}
	for name, test := range map[string]struct {
		add  func(*Listing)
		want []Run
	}{
		"after whole ones":       {func(l *Listing) { l.Archived(s(3)); l.InPieces(s(4)) }, []Run{{s(3), s(4), true}}},
		"alone":                  {func(l *Listing) { l.InPieces(s(4)); l.InPieces(s(4)) }, []Run{{s(4), s(4), true}}},
		"after a gap":            {func(l *Listing) { l.Archived(s(3)); l.InPieces(s(5)) }, []Run{{s(3), s(3), false}}},
		"that is whole, too":     {func(l *Listing) { l.Archived(s(3)); l.InPieces(s(3)) }, []Run{{s(3), s(3), false}}},
		"that was closed":        {func(l *Listing) { l.Archived(s(3)); l.InPieces(s(4)); l.Archived(s(4)) }, []Run{{s(3), s(4), false}}},
		"with whole ones after":  {func(l *Listing) { l.Archived(s(3)); l.InPieces(s(4)); l.Archived(s(5)) }, []Run{{s(3), s(3), false}, {s(5), s(5), false}}},
		"alone, and then closed": {func(l *Listing) { l.InPieces(s(4)); l.Archived(s(5)) }, []Run{{s(5), s(5), false}}},
	} {
		l := Listing{}
		test.add(&l)
		if len(l.WAL) != len(test.want) {
			t.Errorf("%s: %+v", name, l.WAL)
			continue
		}
		for i := range l.WAL {
			if l.WAL[i] != test.want[i] {
				t.Errorf("%s: %+v, want %+v", name, l.WAL[i], test.want[i])
			}
		}
	}
}
