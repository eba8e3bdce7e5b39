package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	segSize = 1 << 20
	lineage = "7-g1"
)

var began = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// bucket is one with a lineage in it.
type bucket struct {
	*testing.T
	*mem.Store
}

func newBucket(t *testing.T) bucket {
	t.Helper()
	b := bucket{t, mem.New()}
	_, err := layout.Claim(t.Context(), b, layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, SegmentSize: segSize, Created: began,
	})
	b.must(err)
	return b
}

func (b bucket) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// archive puts segments of a timeline, from one number to another; each has a commit this many minutes after the beginning.
func (b bucket) archive(timeline uint32, first, last uint64) {
	b.Helper()
	for n := first; n <= last; n++ {
		at := began.Add(time.Duration(n) * time.Minute)
		name := postgres.Segment{Timeline: timeline, Number: n, SegSize: segSize}.Name()
		b.must(wal.New(b).Put(b.Context(), lineage, name, []byte(name), wal.Info{Writer: "test", LastCommit: &at}))
	}
}

// ship puts a piece of an open segment, from one percent of it to another, with a commit this many seconds after its minute.
func (b bucket) ship(timeline uint32, number uint64, from, to int64, seconds int) {
	b.Helper()
	at := began.Add(time.Duration(number)*time.Minute + time.Duration(seconds)*time.Second)
	segment := postgres.Segment{Timeline: timeline, Number: number, SegSize: segSize}
	write := func(w io.Writer) error {
		_, err := w.Write(make([]byte, (to-from)*segSize/100))
		return err
	}
	info := wal.Info{Writer: "test", LastCommit: &at}
	b.must(wal.New(b).PutOpen(b.Context(), lineage, segment, from*segSize/100, to*segSize/100, info, write))
}

// backUp makes a backup that begins and ends in one segment.
func (b bucket) backUp(timeline uint32, number uint64) {
	b.Helper()
	b.backUpOf(timeline, number, nil)
}

// backUpOf makes one that has recorded an object of its cluster.
func (b bucket) backUpOf(timeline uint32, number uint64, object []byte) {
	b.Helper()
	dir := b.TempDir()
	b.must(os.MkdirAll(filepath.Join(dir, "global"), 0o700))
	b.must(os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600))
	b.must(os.WriteFile(filepath.Join(dir, "global/pg_control"), []byte(strings.Repeat("c", 8192)), 0o600))
	at, lsn := began.Add(time.Duration(number)*time.Minute), postgres.LSN(number*segSize)
	_, err := backup.Write(b.Context(), b, backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segSize,
		Cluster: backup.Cluster{Object: object},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: lsn + 40, Timeline: timeline, Time: at}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: lsn + 100, Time: at, BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: fmt.Sprint("b", number)})
	b.must(err)
}

// failOver begins timeline 2 in the middle of a segment.
func (b bucket) failOver(number uint64) {
	b.Helper()
	history := fmt.Sprintf("1\t%s\tno recovery target specified\n", postgres.LSN(number*segSize+segSize/2))
	b.must(wal.New(b).Put(b.Context(), lineage, "00000002.history", []byte(history), wal.Info{Writer: "test"}))
}

func (b bucket) window() Window {
	b.Helper()
	lineages, err := NewReader().Read(b.Context(), b)
	b.must(err)
	if len(lineages) != 1 {
		b.Fatalf("got %+v", lineages)
	}
	return lineages[0].Window
}

func TestWhatCanBeRestored(t *testing.T) {
	for name, test := range map[string]struct {
		fill     func(bucket)
		from, to int // minutes; 0: none
		missing  string
	}{
		"nothing without a backup":            {func(b bucket) { b.archive(1, 1, 5) }, 0, 0, ""},
		"from the oldest backup to the end":   {func(b bucket) { b.archive(1, 1, 9); b.backUp(1, 2); b.backUp(1, 5) }, 2, 9, ""},
		"from after a hole":                   {func(b bucket) { b.archive(1, 1, 3); b.archive(1, 5, 9); b.backUp(1, 2); b.backUp(1, 6) }, 6, 9, "000000010000000000000004"},
		"up to a hole after all":              {func(b bucket) { b.archive(1, 1, 3); b.archive(1, 5, 9); b.backUp(1, 2) }, 2, 3, "000000010000000000000004"},
		"nothing before a missing history":    {func(b bucket) { b.archive(1, 1, 6); b.backUp(1, 2); b.archive(2, 5, 9) }, 0, 0, "00000002.history"},
		"over a failover":                     {func(b bucket) { b.archive(1, 1, 6); b.backUp(1, 2); b.failOver(5); b.archive(2, 5, 9) }, 2, 9, ""},
		"not from what a failover left aside": {func(b bucket) { b.archive(1, 1, 7); b.backUp(1, 6); b.failOver(5); b.archive(2, 5, 9); b.backUp(2, 8) }, 8, 9, ""},
		"over a failover with a hole":         {func(b bucket) { b.archive(1, 1, 6); b.backUp(1, 2); b.failOver(5); b.archive(2, 6, 9); b.backUp(2, 7) }, 7, 9, "000000020000000000000005"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			test.fill(b)
			got := b.window()
			if test.from == 0 {
				if !got.From.IsZero() || got.Missing != test.missing {
					t.Errorf("got %+v", got)
				}
				return
			}
			from, to := began.Add(time.Duration(test.from)*time.Minute), began.Add(time.Duration(test.to)*time.Minute)
			if !got.From.Equal(from) || !got.To.Equal(to) || got.Missing != test.missing {
				t.Errorf("got %s to %s, %q missing; want %s to %s, %q", got.From, got.To, got.Missing, from, to, test.missing)
			}
		})
	}
}

func TestTheOpenSegmentCountsAsFarAsItWasShipped(t *testing.T) {
	for name, test := range map[string]struct {
		fill func(bucket)
		to   time.Duration
	}{
		"its last piece": {func(b bucket) { b.ship(1, 6, 0, 20, 1); b.ship(1, 6, 20, 30, 5) }, 6*time.Minute + 5*time.Second},
		"but not after a missing one": {func(b bucket) { b.ship(1, 6, 0, 20, 1); b.ship(1, 6, 25, 30, 5) },
			6*time.Minute + time.Second},
		"but not without its begin":           {func(b bucket) { b.ship(1, 6, 20, 30, 5) }, 5 * time.Minute},
		"but not after a missing segment":     {func(b bucket) { b.ship(1, 7, 0, 20, 5) }, 5 * time.Minute},
		"but not when the whole one is there": {func(b bucket) { b.ship(1, 5, 0, 20, 5) }, 5 * time.Minute},
		"the first one of a timeline": {func(b bucket) { b.failOver(5); b.ship(2, 5, 0, 60, 30) },
			5*time.Minute + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			b.archive(1, 1, 5)
			b.backUp(1, 2)
			test.fill(b)
			got := b.window()
			if from := began.Add(2 * time.Minute); !got.From.Equal(from) || !got.To.Equal(began.Add(test.to)) || got.Missing != "" {
				t.Errorf("got %s to %s, %q missing; want %s to %s", got.From, got.To, got.Missing, from, began.Add(test.to))
			}
		})
	}
}

// TestABackupWithoutItsOwnWALDoesNotCount: it can't be restored, so it must not stand for one that can.
func TestABackupWithoutItsOwnWALDoesNotCount(t *testing.T) {
	b := newBucket(t)
	b.archive(1, 1, 9)
	b.backUp(1, 2)
	b.backUp(1, 6)
	lost, err := wal.Key(lineage, "000000010000000000000006")
	b.must(errors.Join(err, b.Delete(t.Context(), lost)))
	lineages, err := NewReader().Read(t.Context(), b)
	b.must(err)
	retained := lineages[0].Retained()
	if got := retained.Backups; len(got) != 2 || got[0].ID != "b6" || !got[0].Damaged || got[1].Damaged {
		t.Errorf("got %+v", got)
	}
	plan := retention.Make(retained, retention.Policy{KeepLast: 1}, time.Now())
	if going := plan.Going(); len(going) != 0 || plan.KeepWAL != 2 {
		t.Errorf("%+v go, and WAL stays from %d on", going, plan.KeepWAL)
	}
}

func TestATimelineOfWhichNobodyKnowsWhereItBeginsIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		fill func(bucket)
		want uint32
	}{
		"its history is missing":             {func(b bucket) {}, 2},
		"its history is there":               {func(b bucket) { b.failOver(5) }, 0},
		"a backup was taken on it meanwhile": {func(b bucket) { b.backUp(2, 7) }, 0},
	} {
		b := newBucket(t)
		b.archive(1, 1, 6)
		b.backUp(1, 2)
		b.archive(2, 5, 9)
		test.fill(b)
		lineages, err := NewReader().Read(t.Context(), b)
		b.must(err)
		if got := lineages[0].Unlinked; got != test.want {
			t.Errorf("%s: timeline %d", name, got)
		}
	}
}

func TestABackupThatCanNotBeReadIsNamedAndTheRestIsCounted(t *testing.T) {
	b := newBucket(t)
	b.archive(1, 1, 3)
	b.backUp(1, 2)
	b.must(b.Put(t.Context(), layout.ManifestKey(lineage, "broken"), []byte("garbage"), objstore.PutOptions{}))
	lineages, err := NewReader().Read(t.Context(), b)
	b.must(err)
	l := lineages[0]
	if len(l.Damaged) != 1 || l.Damaged[0] != "broken" || len(l.Backups) != 1 || l.StoredBytes == 0 || l.WALBytes == 0 || l.LastWritten.IsZero() {
		t.Errorf("got %+v", l)
	}
}

func TestASecondLookReadsNoManifestAgain(t *testing.T) {
	b := newBucket(t)
	b.archive(1, 1, 3)
	b.backUp(1, 2)
	reads := 0
	store := fault.New(b, fault.Plan{Before: func(c fault.Call) error {
		if strings.Contains(c.Key, "/backups/") && c.Op != "list" {
			reads++
		}
		return nil
	}})
	reader := NewReader()
	for range 2 {
		_, err := reader.Read(t.Context(), store)
		b.must(err)
	}
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
}

func TestAStoreThatFailsIsAnErrorAndNotAnEmptyRepository(t *testing.T) {
	b := newBucket(t)
	b.archive(1, 1, 3)
	b.backUp(1, 2)
	away := errors.New("away")
	for at, finished := 1, false; !finished; at++ {
		store := fault.New(b, fault.Plan{Before: func(c fault.Call) error {
			if c.Number == at {
				return away
			}
			return nil
		}})
		_, err := NewReader().Read(t.Context(), store)
		finished = store.Calls() < at
		if !finished && !errors.Is(err, away) {
			t.Errorf("call %d: %v", at, err)
		}
	}
}

func TestALineageThatCanNotBeReadIsNamedAndTheOthersAreRead(t *testing.T) {
	const other = "8-g1"
	history := layout.HistoryPrefix(other) + "00000002.history"
	put := func(key, body string) func(bucket) {
		return func(b bucket) { b.must(b.Put(b.Context(), key, []byte(body), objstore.PutOptions{})) }
	}
	for name, test := range map[string]struct {
		damage func(bucket)
		want   string // nothing: it isn't listed
	}{
		"lineage.json is garbage":            {put(layout.LineageKey(other), "{"), layout.LineageKey(other)},
		"lineage.json is of a later version": {put(layout.LineageKey(other), `{"format": 99}`), "written by a later version of Howdah"},
		"lineage.json is of another lineage": {put(layout.LineageKey(other), `{"format": 2, "lineage": "`+strings.Repeat("x", 1<<16)+`"}`), "names lineage"},
		"lineage.json is too large":          {put(layout.LineageKey(other), strings.Repeat("x", 2<<20)), layout.LineageKey(other)},
		"lineage.json names no writer":       {put(layout.LineageKey(other), `{"format": 2, "lineage": "8-g1", "segmentSize": 1048576}`), "no UID"},
		"lineage.json was deleted":           {func(b bucket) { b.must(b.Delete(b.Context(), layout.LineageKey(other))) }, "is missing"},
		"a history is garbage":               {put(history, "garbage"), history},
		"a history says nothing": {func(b bucket) {
			b.must(wal.New(b).Put(b.Context(), other, "00000002.history", []byte("nothing"), wal.Info{Writer: "test"}))
		}, history},
		"all of it was deleted meanwhile": {func(b bucket) {
			for info := range b.List(b.Context(), layout.LineagePrefix(other), "") {
				b.must(b.Delete(b.Context(), info.Key))
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t)
			b.archive(1, 1, 5)
			b.backUp(1, 2)
			_, err := layout.Claim(t.Context(), b, layout.Lineage{Lineage: other, Writer: layout.Writer{UID: "u2"}, SegmentSize: segSize, Created: began})
			b.must(err)
			put(layout.PackKey(other, "b", "p"), "pack")(b)
			test.damage(b)
			lineages, err := NewReader().Read(t.Context(), b)
			b.must(err)
			found := map[string]Lineage{}
			for _, l := range lineages {
				found[l.Lineage.Lineage] = l
			}
			if l := found[lineage]; len(l.Backups) != 1 || l.Unreadable != "" || l.Window.To.IsZero() {
				t.Errorf("the other one: %+v", l)
			}
			l, there := found[other]
			if there != (test.want != "") || !strings.Contains(l.Unreadable, test.want) || len(l.Unreadable) > 400 {
				t.Errorf("the damaged one: %+v", l)
			}
			if there && (l.LastWritten.IsZero() || l.StoredBytes == 0) {
				t.Errorf("its size: %+v", l)
			}
		})
	}
}

func TestTheWALThatAPlanRemovesIsCounted(t *testing.T) {
	runs := func(bounds ...uint64) (runs []pitr.Run) {
		for i := 0; i < len(bounds); i += 3 {
			timeline := uint32(bounds[i])
			runs = append(runs, pitr.Run{First: postgres.Segment{Timeline: timeline, Number: bounds[i+1]}, Last: postgres.Segment{Timeline: timeline, Number: bounds[i+2]}})
		}
		return runs
	}
	stay, goes := []retention.Reason{retention.Held}, []retention.Reason(nil)
	for name, test := range map[string]struct {
		wal      []pitr.Run
		backups  [][2]uint64
		verdicts map[int][]retention.Reason
		keep     uint64
		want     int64
	}{
		"all WAL stays":                {runs(1, 1, 9), nil, nil, 0, 0},
		"what lies before":             {runs(1, 1, 9), nil, nil, 5, 4},
		"on every timeline":            {runs(1, 1, 5, 1, 7, 9, 2, 5, 9), nil, nil, 8, 5 + 1 + 3},
		"none is kept":                 {runs(1, 1, 9), nil, nil, retention.NoWAL, 9},
		"what a backup needs stays":    {runs(1, 1, 9), [][2]uint64{{3, 4}}, map[int][]retention.Reason{0: stay}, 8, 5},
		"but not of one that goes":     {runs(1, 1, 9), [][2]uint64{{3, 4}}, map[int][]retention.Reason{0: goes}, 8, 7},
		"of two that overlap":          {runs(1, 1, 9), [][2]uint64{{4, 6}, {2, 4}, {5, 5}}, map[int][]retention.Reason{0: stay, 1: stay, 2: stay}, 8, 2},
		"of one that begins before it": {runs(1, 4, 9), [][2]uint64{{1, 5}, {7, 20}}, map[int][]retention.Reason{0: stay, 1: stay}, 9, 1},
	} {
		l, plan := Lineage{WAL: test.wal}, retention.Plan{KeepWAL: test.keep}
		for i, b := range test.backups {
			l.Backups = append(l.Backups, Backup{ID: fmt.Sprint(i), First: b[0], Last: b[1]})
			plan.Verdicts = append(plan.Verdicts, retention.Verdict{Backup: retention.Backup{ID: fmt.Sprint(i)}, Stays: test.verdicts[i]})
		}
		if got := l.WALGoing(plan); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
