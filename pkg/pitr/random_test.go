package pitr_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

const seg = pitrtest.SegmentSize

// record is one of a database's log. It doesn't cross segments.
type record struct {
	from, to postgres.LSN
	at       time.Time // of a commit; zero: none
}

// database is a random history of one, with failovers after which the former primary may have continued for a while, and what of
// it is in an archive.
type database struct {
	*rand.Rand
	now       time.Time
	logs      map[uint32][]record // by timeline, the whole way to its end
	histories map[uint32]postgres.TimelineHistory
	timeline  uint32
	archive   pitrtest.Lineage
}

func newDatabase(random *rand.Rand) *database {
	d := &database{Rand: random, now: pitrtest.Minute(0), timeline: 1, logs: map[uint32][]record{}, histories: map[uint32]postgres.TimelineHistory{1: {Timeline: 1}}}
	d.archive = pitrtest.Lineage{Name: pitrtest.First, Created: d.now}
	d.write(1, 2)
	for range 3 + d.IntN(8) {
		switch d.IntN(4) {
		case 0:
			d.failOver()
		case 1:
			d.backUp(d.timeline)
		default:
			d.write(d.timeline, d.IntN(12))
		}
	}
	d.store()
	return d
}

// end is where the log of a timeline ends.
func (d *database) end(timeline uint32) postgres.LSN {
	if log := d.logs[timeline]; len(log) > 0 {
		return log[len(log)-1].to
	}
	return seg
}

// write writes some records, most of which are commits, two seconds from each other.
func (d *database) write(timeline uint32, count int) {
	for range count {
		at, size := d.end(timeline), postgres.LSN(seg/4)
		if d.IntN(8) == 0 { // a switch of segments
			at = (at/seg + 1) * seg
		}
		r := record{from: at, to: at + size}
		d.now = d.now.Add(2 * time.Second)
		if d.IntN(3) > 0 {
			r.at = d.now
		}
		d.logs[timeline] = append(d.logs[timeline], r)
	}
}

func (d *database) backUp(timeline uint32) {
	b := pitr.Backup{ID: fmt.Sprintf("b%d", len(d.archive.Backups)), Timeline: timeline, StartLSN: d.end(timeline)}
	d.write(timeline, 1+d.IntN(5))
	d.now = d.now.Add(2 * time.Second)
	b.StopLSN, b.StopTime = d.end(timeline), d.now
	d.archive.Backups = append(d.archive.Backups, b)
}

// failOver begins a timeline. The former primary may continue alone.
func (d *database) failOver() {
	former := d.timeline
	d.timeline++
	h := postgres.TimelineHistory{Timeline: d.timeline, Ancestors: slices.Clone(d.histories[former].Ancestors)}
	h.Ancestors = append(h.Ancestors, postgres.TimelineSwitch{Timeline: former, LSN: d.end(former)})
	d.histories[d.timeline] = h
	d.logs[d.timeline] = slices.Clone(d.logs[former])
	if d.IntN(3) == 0 {
		d.write(former, d.IntN(8))
		if d.IntN(2) == 0 {
			d.backUp(former)
		}
	}
	d.write(d.timeline, 1+d.IntN(8))
}

// store archives what there is, but for what is lost.
func (d *database) store() {
	lost := d.IntN(4)
	for timeline, h := range d.histories {
		if timeline > 1 && (lost != 1 || d.IntN(3) > 0) {
			d.archive.Histories = append(d.archive.Histories, h)
		}
		begin := postgres.LSN(0)
		if n := len(h.Ancestors); n > 0 {
			begin = h.Ancestors[n-1].LSN
		}
		last := uint64(d.end(timeline)) / seg
		if d.IntN(2) == 0 && last > 0 {
			last-- // the last one is still written
		}
		for n := uint64(begin) / seg; n <= last; n++ {
			if lost == 2 && d.IntN(6) == 0 {
				continue
			}
			d.archive.Segments = append(d.archive.Segments, d.segment(timeline, n))
		}
	}
}

func (d *database) segment(timeline uint32, number uint64) pitrtest.Segment {
	s := pitrtest.Segment{Segment: postgres.Segment{Timeline: timeline, Number: number, SegSize: seg}}
	for _, r := range d.in(timeline, number) {
		s.EndLSN = r.to
		if !r.at.IsZero() {
			s.LastCommit = &r.at
		}
	}
	return s
}

// in are the records of a segment.
func (d *database) in(timeline uint32, number uint64) []record {
	var found []record
	for _, r := range d.logs[timeline] {
		if uint64(r.from)/seg == number {
			found = append(found, r)
		}
	}
	return found
}

// newest is the timeline that there is anything of, and the history of it that is known.
func (d *database) newest() postgres.TimelineHistory {
	h := postgres.TimelineHistory{}
	for _, s := range d.archive.Segments {
		h.Timeline = max(h.Timeline, s.Timeline)
	}
	for _, b := range d.archive.Backups {
		h.Timeline = max(h.Timeline, b.Timeline)
	}
	for _, known := range d.archive.Histories {
		if known.Timeline == h.Timeline {
			return known
		}
	}
	return h
}

// replayed is what PostgreSQL reads from a backup on along a history, segment by segment, until one isn't there.
func (d *database) replayed(b pitr.Backup, h postgres.TimelineHistory) (records []record, end postgres.LSN) {
	for number := uint64(b.StartLSN) / seg; ; number++ {
		timeline := h.Timeline
		for _, a := range slices.Backward(h.Ancestors) {
			if number < uint64(a.LSN)/seg {
				timeline = a.Timeline
			}
		}
		there := slices.ContainsFunc(d.archive.Segments, func(s pitrtest.Segment) bool { return s.Timeline == timeline && s.Number == number })
		if !there {
			return records, end
		}
		end = postgres.LSN(number+1) * seg
		for _, r := range d.in(timeline, number) {
			if end = r.to; r.from >= b.StartLSN {
				records = append(records, r)
			}
		}
	}
}

// truth are the commits after a position that a restore to a time has.
func (d *database) truth(timeline uint32, from postgres.LSN, at time.Time) (commits []postgres.LSN) {
	for _, r := range d.logs[timeline] {
		if r.from >= from && !r.at.IsZero() && !r.at.After(at) {
			commits = append(commits, r.from)
		}
	}
	return commits
}

// oracle tries every backup.
func (d *database) oracle(at time.Time) bool {
	h := d.newest()
	return slices.ContainsFunc(d.archive.Backups, func(b pitr.Backup) bool { return d.goesOn(b, h) && d.leads(b, h, at) })
}

// goesOn says that a history continues from a backup.
func (d *database) goesOn(b pitr.Backup, h postgres.TimelineHistory) bool {
	left, related := h.Left(b.Timeline)
	return b.Timeline == h.Timeline || related && b.StopLSN <= left
}

// leads says that replay from a backup meets a later commit, or that everything until then is known to be there.
func (d *database) leads(b pitr.Backup, h postgres.TimelineHistory, at time.Time) bool {
	records, end := d.replayed(b, h)
	if b.StopTime.After(at) || end < b.StopLSN {
		return false
	}
	for _, r := range records {
		if !r.at.IsZero() && !r.at.Before(at) {
			return true
		}
	}
	return slices.ContainsFunc(d.archive.Backups, func(proof pitr.Backup) bool {
		return d.goesOn(proof, h) && !proof.StopTime.Before(at) && proof.StopLSN <= end
	})
}

// restored are the commits after the chosen backup that replay ends with.
func (d *database) restored(v pitr.Verdict) (commits []postgres.LSN) {
	records, _ := d.replayed(v.Candidate.Reach.Backup, d.newest())
	for _, r := range records {
		if v.StopAt.Time != nil && !r.at.IsZero() && r.at.After(*v.StopAt.Time) {
			return commits
		}
		if !r.at.IsZero() {
			commits = append(commits, r.from)
		}
	}
	if v.StopAt.Time != nil {
		panic("replay ended before the target was reached")
	}
	return commits
}

// check compares the planner with the oracle and the windows, at every second.
func (d *database) check(t *testing.T) {
	t.Helper()
	g := pitr.New(d.archive.Listing())
	recoverable, err := g.Windows(&d.archive)
	if err != nil {
		t.Fatal(err)
	}
	facts := pitr.Facts{Now: d.now.Add(time.Hour)}
	for at := pitrtest.Minute(0); at.Before(d.now.Add(5 * time.Second)); at = at.Add(time.Second) {
		target := pitr.Target{Time: &at}
		c, err := g.Examine(target, "", &d.archive)
		if err != nil {
			t.Fatal(err)
		}
		v := pitr.Decide([]pitr.Candidate{c}, target, facts)
		reachable := v.Code == pitr.Reachable
		if published := slices.ContainsFunc(recoverable.Windows, func(w pitr.Window) bool { return !at.Before(w.From) && !at.After(w.To) }); published != reachable {
			t.Errorf("%s: published %t, but the verdict is %s: %+v", pitr.Stamp(at), published, v.Code, recoverable.Windows)
		}
		if possible := d.oracle(at); possible != reachable {
			t.Errorf("%s: the verdict is %s, and possible is %t", pitr.Stamp(at), v.Code, possible)
		}
		if !reachable {
			continue
		}
		if got, want := d.restored(v), d.truth(v.Candidate.Timeline, v.Candidate.Reach.Backup.StartLSN, at); !slices.Equal(got, want) {
			t.Errorf("%s: restored is %v, and committed was %v", pitr.Stamp(at), got, want)
		}
	}
	if t.Failed() {
		t.Logf("%+v", d.archive)
	}
}

func TestRandomHistoriesAreJudgedAsByTryingEverything(t *testing.T) {
	for seed := range uint64(1000) {
		newDatabase(rand.New(rand.NewPCG(seed, 0))).check(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzHistories(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { newDatabase(rand.New(rand.NewPCG(a, b))).check(t) })
}
