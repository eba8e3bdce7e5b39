package way

import (
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// clock is so many minutes after the begin.
func clock(minutes int) time.Time { return sample.Begin.Add(time.Duration(minutes) * time.Minute) }

// archive has backups that end at 1 and 61 minutes (segments 2 and 10), and WAL up to segment 14, with commits until 120.
func archive(t *testing.T) objstore.Store {
	store, dir := mem.New(), sample.Data(t)
	sample.Claim(t, store, sample.Lineage, "shop")
	sample.Backup(t, store, sample.Lineage, "old", dir, 0, 2)
	for n := uint64(4); n < 10; n++ {
		sample.Archive(t, store, sample.Lineage, n, clock(int(n)))
	}
	sample.Backup(t, store, sample.Lineage, "new", dir, 60, 10)
	points := []wal.RestorePoint{{Name: "once", LSN: 12*sample.SegSize + 100, Time: clock(70)}, {Name: "twice", LSN: 12*sample.SegSize + 200, Time: clock(71)}}
	sample.Archive(t, store, sample.Lineage, 12, clock(72), points...)
	sample.Archive(t, store, sample.Lineage, 13, clock(120), wal.RestorePoint{Name: "twice", LSN: 13*sample.SegSize + 200, Time: clock(119)})
	sample.Archive(t, store, sample.Lineage, 14, time.Time{})
	return store
}

func find(t *testing.T, store objstore.Store, target Target) (Way, error) {
	t.Helper()
	owner := sampleOwner(t, store)
	lineage, err := Read(t.Context(), store, owner, "")
	if err != nil {
		t.Fatal(err)
	}
	return Find(t.Context(), []Lineage{lineage}, target, clock(600))
}

func at(minutes int) Target {
	time := clock(minutes)
	return Target{Time: &time}
}

func remove(n uint64) func(*testing.T, objstore.Store) {
	return func(t *testing.T, store objstore.Store) {
		key, _ := wal.Key(sample.Lineage, sample.Segment(n))
		if err := store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheNewestBackupBeforeATargetIsTaken(t *testing.T) {
	for name, test := range map[string]struct {
		target Target
		backup string
		end    bool
	}{
		"the end":                                    {Target{}, "new", true},
		"the end of the backup":                      {Target{Immediate: true}, "new", false},
		"a time behind both":                         {at(100), "new", false},
		"a time between them":                        {at(30), "old", false},
		"the very time at which one ended":           {at(61), "new", false},
		"the time of the last commit":                {at(120), "new", true},
		"a position":                                 {Target{LSN: 12 * sample.SegSize}, "new", false},
		"a position between the backups":             {Target{LSN: 5 * sample.SegSize}, "old", false},
		"a position in the rest of the last segment": {Target{LSN: 15*sample.SegSize - 10}, "new", true},
		"a restore point":                            {Target{Name: "once"}, "new", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := find(t, archive(t), test.target)
			if err != nil {
				t.Fatal(err)
			}
			if w.Head.ID != test.backup || w.StopAt.End() != test.end || w.Reach.Last != sample.Segment(14) {
				t.Errorf("%s, stop at %s, %+v", w.Head.ID, w.StopAt, w.Reach)
			}
		})
	}
}

func TestATargetThatCannotBeReachedIsRefusedWithWhatCan(t *testing.T) {
	for name, test := range map[string]struct {
		target Target
		change func(*testing.T, objstore.Store)
		want   string
	}{
		"the future":                     {at(700), nil, "is in the future"},
		"a time behind the archive":      {at(130), nil, "the last commit in it is at 2026-03-04T07:00:00Z: write a time until then, or --latest"},
		"a time before the oldest":       {at(-5), nil, "the oldest one, old, leads to 2026-03-04T05:01:00Z"},
		"a position behind the archive":  {Target{LSN: 20 * sample.SegSize}, nil, "the archive ends at LSN 0/E80000"},
		"an unknown point":               {Target{Name: "never"}, nil, `there is no restore point "never"`},
		"a point that is there twice":    {Target{Name: "twice"}, nil, "more than one"},
		"the end behind a hole":          {Target{}, remove(13), sample.Segment(13) + " is missing"},
		"a time behind a hole":           {at(110), remove(13), sample.Segment(13) + " is missing"},
		"a backup without its WAL":       {at(100), remove(10), sample.Segment(10) + " is missing in the archive, and backup new"},
		"a backup without its later WAL": {Target{Immediate: true}, remove(11), sample.Segment(11) + " is missing in the archive, and backup new"},
	} {
		t.Run(name, func(t *testing.T) {
			store := archive(t)
			if test.change != nil {
				test.change(t, store)
			}
			_, err := find(t, store, test.target)
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestATimeBeforeAHoleIsReached(t *testing.T) {
	store := archive(t)
	remove(14)(t, store)
	sample.Archive(t, store, sample.Lineage, 15, clock(200))
	w, err := find(t, store, at(110))
	if err != nil || w.Reach.Missing != sample.Segment(14) || w.Reach.Last != sample.Segment(13) {
		t.Errorf("%+v, %v", w.Reach, err)
	}
}

func TestTheWayLeadsOverTimelines(t *testing.T) {
	store := mem.New()
	sample.Claim(t, store, sample.Lineage, "shop")
	m := sample.Backup(t, store, sample.Lineage, "b", sample.Data(t), 0, 2)
	sample.Archive(t, store, sample.Lineage, 4, clock(5))
	sample.Archive(t, store, sample.Lineage, 5, clock(6)) // behind the switch: nobody needs it
	put := func(name, content string) {
		if err := wal.New(store).Put(t.Context(), sample.Lineage, name, []byte(content), wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	put("00000002.history", "1\t0/480000\tno recovery target specified\n")
	open := func() Reach {
		a, err := Open(t.Context(), store, sample.Lineage)
		if err != nil {
			t.Fatal(err)
		}
		return a.Behind(&m.Head)
	}
	if r := open(); r.Timeline != 2 || r.Last != sample.Segment(3) || r.Missing != "" {
		t.Errorf("a timeline that has archived nothing: %+v", r)
	}
	second := func(n uint64) string {
		return postgres.Segment{Timeline: 2, Number: n, SegSize: sample.SegSize}.Name()
	}
	put(second(4), "x")
	put(second(5), "x")
	if r := open(); r.Timeline != 2 || r.First != sample.Segment(2) || r.Last != second(5) || r.Segments != 4 || r.Missing != "" {
		t.Errorf("%+v", r)
	}
	put(second(7), "x")
	if r := open(); r.Last != second(5) || r.Missing != second(6) {
		t.Errorf("with a hole: %+v", r)
	}
	early := backup.Head{Timeline: 2, StartLSN: 5 * sample.SegSize, StopLSN: 5*sample.SegSize + 10}
	a, _ := Open(t.Context(), store, sample.Lineage)
	if r := a.Behind(&early); r.First != second(5) || r.Timeline != 2 {
		t.Errorf("a backup of the second: %+v", r)
	}
}

func sampleOwner(t *testing.T, store objstore.Store) repository.Lineage {
	t.Helper()
	owner, err := repository.ReadLineage(t.Context(), store, sample.Lineage)
	if err != nil {
		t.Fatal(err)
	}
	return owner
}
