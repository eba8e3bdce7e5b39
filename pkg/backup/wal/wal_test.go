package wal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const lineage = "7412345678901234567-g1"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claimed is a store with one lineage.
func claimed(t testing.TB) objstore.Store {
	t.Helper()
	store := mem.New()
	_, err := layout.Claim(t.Context(), store, layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, SegmentSize: postgres.DefaultSegSize,
	})
	must(t, err)
	return store
}

func segment(timeline uint32, number uint64) postgres.Segment {
	return postgres.Segment{Timeline: timeline, Number: number, SegSize: postgres.DefaultSegSize}
}

// content is like WAL: half of it repeats.
func content(seed byte, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b[:size/2])
	return b
}

func TestAFileComesBackAsItWasArchived(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	info := wal.Info{Writer: "shop-0 of demo/shop", StartLSN: 0x2000000, EndLSN: 0x2ffff00, FirstCommit: &at, LastCommit: &at}
	for _, name := range []string{
		"000000010000000000000002", "000000010000000000000003.partial", "00000002.history",
		"000000010000000000000002.00000028.backup", "000000020000000000000003",
	} {
		for _, size := range []int{0, 1, 300_000} {
			want := content(1, size)
			store := claimed(t)
			archive := wal.New(store)
			must(t, archive.Put(t.Context(), lineage, name, want, info))
			got, header, err := archive.Get(t.Context(), lineage, name)
			must(t, err)
			only, err := archive.ReadHeader(t.Context(), lineage, name)
			must(t, err)
			if !bytes.Equal(got, want) || header.RawSize != int64(size) || !reflect.DeepEqual(header.Info, info) || !reflect.DeepEqual(only, header) {
				t.Errorf("%s of %d bytes: got %d bytes, %+v, %+v", name, size, len(got), header, only)
			}
		}
	}
}

func TestTheSameContentMayBeArchivedAgainAndADifferentOneNotEver(t *testing.T) {
	archive := wal.New(claimed(t))
	name := segment(1, 2).Name()
	must(t, archive.Put(t.Context(), lineage, name, content(1, 1000), wal.Info{Writer: "first"}))
	must(t, archive.Put(t.Context(), lineage, name, content(1, 1000), wal.Info{Writer: "second"}))
	err := archive.Put(t.Context(), lineage, name, content(2, 1000), wal.Info{Writer: "second"})
	if !errors.Is(err, wal.ErrConflict) || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "second") {
		t.Errorf("got %v", err)
	}
	got, header, err := archive.Get(t.Context(), lineage, name)
	if err != nil || !bytes.Equal(got, content(1, 1000)) || header.Writer != "first" {
		t.Errorf("what was there changed: %+v, %v", header, err)
	}
}

func TestAnOlderVersionsCompressionOfTheSameContentIsTheSameContent(t *testing.T) {
	store := claimed(t)
	name := segment(1, 2).Name()
	key, err := wal.Key(lineage, name)
	must(t, err)
	for _, test := range []struct {
		there []byte
		want  error
	}{{content(1, 3<<20), nil}, {content(2, 3<<20), wal.ErrConflict}} {
		must(t, store.Delete(t.Context(), key))
		must(t, wal.New(store).Put(t.Context(), lineage, name, test.there, wal.Info{Writer: "first"}))
		object, err := store.Get(t.Context(), key, 1<<30)
		must(t, err)
		must(t, store.Put(t.Context(), key, wal.Recompressed(t, object), objstore.PutOptions{}))
		if err := wal.New(store).Put(t.Context(), lineage, name, content(1, 3<<20), wal.Info{Writer: "second"}); !errors.Is(err, test.want) {
			t.Errorf("%v instead of %v", err, test.want)
		}
	}
}

// words are like WAL of text: some words, over and over, in any order.
func words(size int) []byte {
	random, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 0, size+16)
	for len(b) < size {
		b = fmt.Appendf(b, "word %d ", random.IntN(2000))
	}
	return b[:size]
}

// images are like those of pages of a table: rows that differ in a few digits.
func images(size int) []byte {
	b := make([]byte, 0, size+100)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%08d|%032d|account of a customer, with room for more%30s|", i, i*7919, "")
	}
	return b[:size]
}

func TestEveryWayToCompressGivesTheSameContentBack(t *testing.T) {
	for name, test := range map[string]struct {
		content []byte
		passes  map[wal.Effort]int
	}{
		"words":           {words(1 << 20), map[wal.Effort]int{wal.Thorough: 0, wal.Hasty: 1}},
		"images of pages": {images(1 << 20), map[wal.Effort]int{wal.Thorough: 2, wal.Hasty: 3}},
		"random":          {content(1, 1<<20), map[wal.Effort]int{wal.Thorough: 0, wal.Hasty: 1}},
		"few bytes":       {content(1, 100), map[wal.Effort]int{wal.Thorough: 0, wal.Hasty: 1}},
		"nothing":         {nil, map[wal.Effort]int{wal.Thorough: 0, wal.Hasty: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			archive := wal.New(claimed(t))
			for effort, passes := range test.passes {
				name := segment(1, uint64(2+effort)).Name()
				must(t, archive.PutFrom(t.Context(), lineage, name, int64(len(test.content)), effort, func(w io.Writer) (wal.Info, error) {
					_, err := io.CopyBuffer(struct{ io.Writer }{w}, bytes.NewReader(test.content), make([]byte, 10_000))
					return wal.Info{}, err
				}))
				got, header, err := archive.Get(t.Context(), lineage, name)
				if err != nil || !bytes.Equal(got, test.content) || header.MinLZ != passes {
					t.Errorf("%d bytes, compressed %d times with MinLZ, %v", len(got), header.MinLZ, err)
				}
			}
		})
	}
}

func TestWhatIsPushedInHasteIsLargerAndTheSameContent(t *testing.T) {
	store := claimed(t)
	archive := wal.New(store)
	name, other, text := segment(1, 2).Name(), segment(1, 3).Name(), words(1<<20)
	push := func(name string, effort wal.Effort) error {
		return archive.PutFrom(t.Context(), lineage, name, int64(len(text)), effort, func(w io.Writer) (wal.Info, error) {
			_, err := w.Write(text)
			return wal.Info{Writer: "w"}, err
		})
	}
	must(t, push(name, wal.Hasty))
	must(t, push(other, wal.Thorough))
	must(t, push(name, wal.Thorough)) // again
	got, _, err := archive.Get(t.Context(), lineage, name)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("another content came back: %v", err)
	}
	size := func(name string) int64 {
		key, err := wal.Key(lineage, name)
		must(t, err)
		info, err := store.Stat(t.Context(), key)
		must(t, err)
		return info.Size
	}
	if size(name) <= size(other) {
		t.Errorf("in haste %d bytes, else %d", size(name), size(other))
	}
}

func TestAContentOfAnotherSizeThanWasSaidIsNotArchived(t *testing.T) {
	store := claimed(t)
	archive := wal.New(store)
	name := segment(1, 2).Name()
	for _, size := range []int{99, 101} {
		err := archive.PutFrom(t.Context(), lineage, name, 100, wal.Hasty, func(w io.Writer) (wal.Info, error) {
			_, err := w.Write(content(1, size))
			return wal.Info{}, err
		})
		if err == nil {
			t.Errorf("%d bytes of 100 are taken", size)
		}
	}
	if _, _, err := archive.Get(t.Context(), lineage, name); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("something is there: %v", err)
	}
}

func TestManyRestorePointsFitBeforeTheContent(t *testing.T) {
	archive := wal.New(claimed(t))
	name := segment(1, 2).Name()
	points := make([]wal.RestorePoint, 200)
	for i := range points {
		points[i] = wal.RestorePoint{Name: fmt.Sprintf("point %d", i), LSN: postgres.LSN(i + 1), Time: time.Unix(int64(i), 0).UTC()}
	}
	must(t, archive.Put(t.Context(), lineage, name, content(1, 5000), wal.Info{RestorePoints: points}))
	got, header, err := archive.Get(t.Context(), lineage, name)
	if err != nil || !bytes.Equal(got, content(1, 5000)) || !reflect.DeepEqual(header.RestorePoints, points) {
		t.Errorf("%d bytes, %d points, %v", len(got), len(header.RestorePoints), err)
	}
}

func TestAPutWhoseAnswerWasLostSucceedsWhenRepeated(t *testing.T) {
	inner := claimed(t)
	lost := fault.New(inner, fault.Plan{After: func(c fault.Call) error {
		if c.Number == 1 {
			return objstore.ErrUnavailable
		}
		return nil
	}})
	archive := wal.New(lost)
	if err := archive.Put(t.Context(), lineage, segment(1, 2).Name(), content(1, 100), wal.Info{}); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	must(t, archive.Put(t.Context(), lineage, segment(1, 2).Name(), content(1, 100), wal.Info{}))
}

func TestOneFlippedBitInAnArchivedFileIsFound(t *testing.T) {
	store := claimed(t)
	archive := wal.New(store)
	name := segment(1, 2).Name()
	must(t, archive.Put(t.Context(), lineage, name, content(1, 2000), wal.Info{Writer: "w"}))
	key, err := wal.Key(lineage, name)
	must(t, err)
	whole, err := store.Get(t.Context(), key, 1<<20)
	must(t, err)
	for at := range whole {
		broken := bytes.Clone(whole)
		broken[at] ^= 1 << (at % 8)
		must(t, store.Put(t.Context(), key, broken, objstore.PutOptions{}))
		if _, _, err := archive.Get(t.Context(), lineage, name); !errors.Is(err, wal.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Fatalf("byte %d: got %v", at, err)
		}
	}
	must(t, store.Put(t.Context(), key, whole[:len(whole)-1], objstore.PutOptions{}))
	if _, _, err := archive.Get(t.Context(), lineage, name); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("shortened: got %v", err)
	}
}

func TestAFileUnderAnotherNameIsNotTakenForIt(t *testing.T) {
	store := claimed(t)
	archive := wal.New(store)
	must(t, archive.Put(t.Context(), lineage, segment(1, 2).Name(), content(1, 100), wal.Info{}))
	from, _ := wal.Key(lineage, segment(1, 2).Name())
	to, _ := wal.Key(lineage, segment(1, 3).Name())
	object, err := store.Get(t.Context(), from, 1<<20)
	must(t, err)
	must(t, store.Put(t.Context(), to, object, objstore.PutOptions{}))
	if _, _, err := archive.Get(t.Context(), lineage, segment(1, 3).Name()); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestNamesThatPostgreSQLDoesNotArchiveAreRefused(t *testing.T) {
	archive := wal.New(claimed(t))
	for _, name := range []string{"", "../x", "PG_VERSION", "00000001000000000000000", "00000001.history.x", "x/000000010000000000000002"} {
		if err := archive.Put(t.Context(), lineage, name, nil, wal.Info{}); !errors.Is(err, layout.ErrName) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, _, err := archive.Get(t.Context(), "../x", segment(1, 2).Name()); !errors.Is(err, layout.ErrName) {
		t.Errorf("got %v", err)
	}
	if _, _, err := archive.Get(t.Context(), lineage, segment(1, 9).Name()); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// fill archives segments 2 to 5, 8 and 9 of timeline 1 and 8 to 10 of timeline 2, and more.
func fill(t testing.TB, archive *wal.Archive) {
	t.Helper()
	commit := time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)
	for _, s := range []postgres.Segment{
		segment(1, 2), segment(1, 3), segment(1, 4), segment(1, 5), segment(1, 8), segment(1, 9),
		segment(2, 8), segment(2, 9), segment(2, 10),
	} {
		info := wal.Info{EndLSN: s.End() - 100}
		if s.Number == 3 {
			info.LastCommit = &commit
		}
		must(t, archive.Put(t.Context(), lineage, s.Name(), []byte(s.Name()), info))
	}
	for _, name := range []string{"00000002.history", segment(1, 10).Name() + ".partial", segment(1, 2).Name() + ".00000028.backup"} {
		must(t, archive.Put(t.Context(), lineage, name, []byte(name), wal.Info{}))
	}
}

func TestCoverageTellsTimelinesAndHoles(t *testing.T) {
	store := claimed(t)
	archive := wal.New(store)
	fill(t, archive)
	must(t, store.Put(t.Context(), "lineages/"+lineage+"/wal/00000001/junk", nil, objstore.PutOptions{}))
	coverage, err := archive.Coverage(t.Context(), lineage)
	must(t, err)
	if len(coverage.Timelines) != 2 || !reflect.DeepEqual(coverage.Histories, []string{"00000002.history"}) {
		t.Fatalf("got %+v", coverage)
	}
	first, second := coverage.Timelines[0], coverage.Timelines[1]
	if first.First != segment(1, 2) || first.Last != segment(1, 9) || first.Segments != 6 || first.Partial != segment(1, 10).Name()+".partial" ||
		!reflect.DeepEqual(first.Holes, []wal.Hole{{First: segment(1, 6), Last: segment(1, 7)}}) || first.Bytes == 0 {
		t.Errorf("timeline 1: %+v", first)
	}
	if second.ID != 2 || second.First != segment(2, 8) || second.Last != segment(2, 10) || len(second.Holes) != 0 {
		t.Errorf("timeline 2: %+v", second)
	}
	if _, err := archive.Coverage(t.Context(), "unknown-g1"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("unknown lineage: %v", err)
	}
}

func TestMissingNamesWhatAReplayWouldLack(t *testing.T) {
	archive := wal.New(claimed(t))
	fill(t, archive)
	name := func(n uint64) string { return segment(1, n).Name() }
	for _, test := range []struct {
		from, to uint64
		want     []string
	}{
		{2, 5, nil}, {4, 8, []string{name(6), name(7)}}, {1, 2, []string{name(1)}},
		{9, 11, []string{name(10), name(11)}}, {20, 21, []string{name(20), name(21)}}, {7, 7, []string{name(7)}},
	} {
		got, err := archive.MissingSegments(t.Context(), lineage, segment(1, test.from), segment(1, test.to))
		must(t, err)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%d to %d: got %v, want %v", test.from, test.to, got, test.want)
		}
	}
}

func TestCoverageFromAPositionAsksForNothingBeforeIt(t *testing.T) {
	store := claimed(t)
	for n := uint64(1); n <= 300; n++ {
		must(t, wal.New(store).Put(t.Context(), lineage, segment(1, n).Name(), nil, wal.Info{}))
	}
	must(t, wal.New(store).Put(t.Context(), lineage, segment(2, 280).Name(), nil, wal.Info{}))
	must(t, wal.New(store).Put(t.Context(), lineage, "00000002.history", []byte("1\t0/1\tx\n"), wal.Info{}))
	counting := &counted{Store: store}
	coverage, err := wal.New(counting).CoverageFrom(t.Context(), lineage, segment(1, 270).Start()+5)
	must(t, err)
	if len(coverage.Timelines) != 2 || len(coverage.Histories) != 1 {
		t.Fatalf("%+v", coverage)
	}
	first, second := coverage.Timelines[0], coverage.Timelines[1]
	if first.First != segment(1, 270) || first.Last != segment(1, 300) || first.Segments != 31 || second.First != segment(2, 280) {
		t.Errorf("%+v, %+v", first, second)
	}
	if counting.listed > 31+1+1+16 {
		t.Errorf("%d objects were listed", counting.listed)
	}
}

// counted counts the objects that are listed.
type counted struct {
	objstore.Store
	listed int
}

func (c *counted) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range c.Store.List(ctx, prefix, after) {
			c.listed++
			if !yield(info, err) {
				return
			}
		}
	}
}
