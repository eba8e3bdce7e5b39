package walget

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const lineage = "7-g1"

func segment(n uint64) string {
	return postgres.Segment{Timeline: 1, Number: n, SegSize: postgres.DefaultSegSize}.Name()
}

// archive holds segments 2, 3, 4 and 6, and the history of timeline 2.
func archive(t *testing.T) objstore.Store {
	store := mem.New()
	claim := layout.Lineage{Lineage: lineage, Writer: layout.Writer{UID: "u"}, SegmentSize: postgres.DefaultSegSize}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{segment(2), segment(3), segment(4), segment(6), "00000002.history", segment(7) + ".partial"} {
		if err := wal.New(store).Put(t.Context(), lineage, name, []byte("content of "+name), wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestFilesAreFetchedAndTheirAbsenceIsExplained(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want error
	}{
		"a segment":                     {segment(2), nil},
		"a history":                     {"00000002.history", nil},
		"a partial segment":             {segment(7) + ".partial", nil},
		"the history of timeline 1":     {"00000001.history", ErrNotArchived},
		"a history that isn't there":    {"00000003.history", ErrNotArchived},
		"a segment beyond the end":      {segment(7), ErrNotArchived},
		"a segment in a hole":           {segment(5), ErrHole},
		"a segment of another timeline": {"00000002" + segment(2)[8:], ErrNotArchived},
		"no name of a WAL file":         {"../../etc/passwd", postgres.ErrSyntax},
	} {
		for _, spool := range []string{"", t.TempDir()} {
			t.Run(name, func(t *testing.T) {
				g := &Getter{Store: archive(t), Lineage: lineage, Spool: spool, Ahead: 3, Patience: 10 * time.Millisecond, Poll: time.Millisecond}
				to := filepath.Join(t.TempDir(), "RECOVERYXLOG")
				err := g.Get(t.Context(), test.file, to)
				if !errors.Is(err, test.want) {
					t.Fatalf("%v, want %v", err, test.want)
				}
				content, errRead := os.ReadFile(to)
				if test.want == nil && string(content) != "content of "+test.file || test.want != nil && errRead == nil {
					t.Errorf("%q, %v", content, errRead)
				}
			})
		}
	}
}

// Retention may remove the WAL of a restore that it doesn't know of. PostgreSQL would take the first segment that it isn't given for the end of all.
func TestWhatWasThereWhenTheRestoreWasPlannedIsNotTheEndOfTheArchive(t *testing.T) {
	onTwo := func(n uint64) string {
		return postgres.Segment{Timeline: 2, Number: n, SegSize: postgres.DefaultSegSize}.Name()
	}
	store := mem.New()
	claim := layout.Lineage{Lineage: lineage, Writer: layout.Writer{UID: "u"}, SegmentSize: postgres.DefaultSegSize}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000002.history", onTwo(5), onTwo(6)} { // all of timeline 1 was removed
		if err := wal.New(store).Put(t.Context(), lineage, name, []byte("content of "+name), wal.Info{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		file, last, least string
		want              error
	}{
		"before the least":                   {segment(3), "", onTwo(6), ErrHole},
		"before the last":                    {segment(3), onTwo(6), "", ErrHole},
		"the least":                          {onTwo(7), "", onTwo(7), ErrHole},
		"beyond the least":                   {onTwo(7), "", onTwo(6), ErrNotArchived},
		"the former timeline, beyond":        {segment(7), "", onTwo(6), ErrNotArchived},
		"nothing is known":                   {segment(3), "", "", ErrNotArchived},
		"a timeline that was only begun":     {onTwo(7), "", segment(6), ErrNotArchived},
		"a history, which need not be there": {"00000003.history", "", onTwo(6), ErrNotArchived},
	} {
		g := &Getter{Store: store, Lineage: lineage, Patience: 5 * time.Millisecond, Poll: time.Millisecond, Last: test.last, Least: test.least}
		if err := g.Get(t.Context(), test.file, filepath.Join(t.TempDir(), "x")); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWrongPlaceIsNotTheEndOfTheArchive(t *testing.T) {
	for _, store := range []objstore.Store{mem.New(), archive(t)} {
		g := &Getter{Store: store, Lineage: "8-g1"}
		if err := g.Get(t.Context(), segment(2), filepath.Join(t.TempDir(), "x")); err == nil || errors.Is(err, ErrNotArchived) {
			t.Errorf("got %v", err)
		}
	}
}

func TestSegmentsFetchedAheadNeedNoStore(t *testing.T) {
	spool, dir := t.TempDir(), t.TempDir()
	g := &Getter{Store: archive(t), Lineage: lineage, Spool: spool, Ahead: 8}
	if err := g.Get(t.Context(), segment(2), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	g.Store = mem.New() // it is gone
	for _, n := range []uint64{3, 4} {
		to := filepath.Join(dir, "b")
		if err := g.Get(t.Context(), segment(n), to); err != nil {
			t.Fatal(err)
		}
		if content, _ := os.ReadFile(to); !strings.HasSuffix(string(content), segment(n)) {
			t.Errorf("%s", content)
		}
	}
	for _, n := range []uint64{2, 3, 4} { // what lies after the hole may be there
		if _, err := os.Stat(filepath.Join(spool, lineage, segment(n))); err == nil {
			t.Errorf("%s is left in the spool", segment(n))
		}
	}
}

func TestASegmentThatComesLateIsAwaited(t *testing.T) {
	store := archive(t)
	g := &Getter{Store: store, Lineage: lineage, Patience: time.Minute, Poll: time.Millisecond}
	go func() {
		_ = wal.New(store).Put(t.Context(), lineage, segment(5), []byte("late"), wal.Info{})
	}()
	if err := g.Get(t.Context(), segment(5), filepath.Join(t.TempDir(), "x")); err != nil {
		t.Error(err)
	}
}

func TestADamagedSegmentIsNotTheEndOfTheArchive(t *testing.T) {
	store := archive(t)
	key, _ := wal.Key(lineage, segment(3))
	object, err := store.Get(t.Context(), key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	object[len(object)-1] ^= 1
	if err := store.Put(t.Context(), key, object, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	g := &Getter{Store: store, Lineage: lineage, Spool: t.TempDir(), Ahead: 2}
	if err := g.Get(t.Context(), segment(3), filepath.Join(t.TempDir(), "x")); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestRecoveryReadsNothingBeyondItsEnd(t *testing.T) {
	store := archive(t)
	whole := strings.Repeat("x", postgres.DefaultSegSize)
	if err := wal.New(store).Put(t.Context(), lineage, segment(5), []byte(whole), wal.Info{}); err != nil {
		t.Fatal(err)
	}
	last := postgres.Segment{Timeline: 1, Number: 5, SegSize: postgres.DefaultSegSize}
	for _, spool := range []string{"", t.TempDir()} {
		g := &Getter{Store: store, Lineage: lineage, Spool: spool, Ahead: 3, Patience: time.Millisecond, Poll: time.Millisecond, Last: segment(5), Until: last.Start() + 100}
		to := filepath.Join(t.TempDir(), "RECOVERYXLOG")
		for range 2 {
			if err := g.Get(t.Context(), segment(5), to); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(to)
			if err != nil || string(content) != whole[:100]+strings.Repeat("\x00", postgres.DefaultSegSize-100) {
				t.Errorf("%d bytes, %v", len(strings.TrimRight(string(content), "\x00")), err)
			}
		}
		if err := g.Get(t.Context(), segment(4), to); err != nil {
			t.Error(err)
		}
		if err := g.Get(t.Context(), segment(6), to); !errors.Is(err, ErrNotArchived) {
			t.Errorf("the archive has gone on: %v", err)
		}
		if err := g.Get(t.Context(), "00000002"+segment(5)[8:], to); !errors.Is(err, ErrNotArchived) {
			t.Errorf("there is another timeline: %v", err)
		}
	}
}

func TestASegmentThatIsStillWrittenIsFetchedAnewEachTime(t *testing.T) {
	store, spool := archive(t), t.TempDir()
	open := postgres.Segment{Timeline: 1, Number: 7, SegSize: postgres.DefaultSegSize}
	g := &Getter{Store: store, Lineage: lineage, Spool: spool, Ahead: 3, Patience: time.Millisecond, Poll: time.Millisecond}
	to := filepath.Join(t.TempDir(), "RECOVERYXLOG")
	for piece := range int64(2) {
		err := wal.New(store).PutOpen(t.Context(), lineage, open, 8*piece, 8*piece+8, wal.Info{}, func(w io.Writer) error {
			_, err := io.WriteString(w, "12345678")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Get(t.Context(), segment(6), to); err != nil { // which fetches the next one ahead
			t.Fatal(err)
		}
		if err := g.Get(t.Context(), segment(7), to); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(to)
		if got := len(strings.TrimRight(string(content), "\x00")); err != nil || got != 8*int(piece)+8 {
			t.Errorf("%d bytes, %v", got, err)
		}
	}
}
