//go:build s3

package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// bed is what `make bench-backup` measures with: the process that stays, and the command that PostgreSQL starts for each
// file.
type bed struct {
	testing.TB
	segments string // folder with a pg_wal
	program  string // of the command
	store    objstore.Store
	claim    layout.Lineage
	socket   string
}

func newBed(t testing.TB, work string) *bed {
	if os.Getenv("HOWDAH_BENCH") != work {
		t.Skip("make bench-backup runs this")
	}
	debug.SetGCPercent(50) // as the agent has it
	debug.SetMemoryLimit(96 << 20)
	b := &bed{TB: t, segments: os.Getenv("HOWDAH_BENCH_WAL"), program: os.Getenv("HOWDAH_BENCH_COMMAND")}
	config := objstore.Config{}
	b.must(json.Unmarshal([]byte(os.Getenv("HOWDAH_BENCH_STORE")), &config))
	var err error
	b.store, err = open.Open(t.Context(), config)
	b.must(err)
	first, err := os.Open(filepath.Join(b.segments, b.names()[0]))
	b.must(err)
	defer first.Close()
	scan, err := postgres.ReadWAL(first, postgres.WALTail{})
	b.must(err)
	system := fmt.Sprint(scan.SystemIdentifier)
	b.claim = layout.Lineage{
		Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: scan.Segment.SegSize,
		Writer: layout.Writer{UID: "u", Namespace: "bench", Name: "bench"}, PGMajor: scan.Major, Created: time.Unix(1, 0).UTC(),
	}
	b.socket, err = os.MkdirTemp("", "bench") // the path of a socket has to be short
	b.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(b.socket) })
	return b
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// names of the segments, in order.
func (b *bed) names() (names []string) {
	entries, err := os.ReadDir(b.segments)
	b.must(err)
	for _, entry := range entries {
		if len(entry.Name()) == segmentName {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		b.Fatal("there are no segments")
	}
	slices.Sort(names)
	wanted, err := strconv.Atoi(os.Getenv("HOWDAH_BENCH_SEGMENTS"))
	b.must(err)
	return names[:min(wanted, len(names))]
}

func (b *bed) serve(handler walsocket.Handler) {
	listener, err := walsocket.Listen(b.socket)
	b.must(err)
	go func() { _ = walsocket.Serve(b.Context(), listener, handler) }() // it ends with the test
}

// call does what PostgreSQL does for each file.
func (b *bed) call(verb string, args ...string) {
	args = append([]string{"-c", `exec "$0" "$@"`, b.program, verb, b.socket}, args...)
	if out, err := exec.CommandContext(b.Context(), "/bin/sh", args...).CombinedOutput(); err != nil {
		b.Fatal(err, string(out))
	}
}

func TestABacklogIsPushed(t *testing.T) {
	b := newBed(t, "wal-push")
	notes := filepath.Join(b.segments, "archive_status")
	names := b.names()
	for _, name := range names {
		b.must(os.WriteFile(filepath.Join(notes, name+".ready"), nil, 0o600))
	}
	a := New(b.segments, slog.New(slog.DiscardHandler), time.Now, DefaultLimits())
	defer a.Close()
	a.SetTarget(&Target{Store: b.store, Writer: "bench", Memory: 64 << 20, Claim: b.claim})
	b.serve(a)
	for _, name := range names {
		b.call(walsocket.VerbArchive, filepath.Join(b.segments, name))
		b.must(os.Rename(filepath.Join(notes, name+".ready"), filepath.Join(notes, name+".done")))
	}
}

// fetched is what a segment's name begins with where the command has put it. Each has a name of its own: PostgreSQL keeps them,
// and whoever overwrites one waits until its blocks are free.
const fetched = "fetched-"

// fetching serves a restore.
type fetching struct {
	ahead *Ahead
	size  uint64
	last  postgres.Segment
}

func (f fetching) Archive(context.Context, string) error { return errors.New("nothing is archived") }

func (f fetching) Fetch(ctx context.Context, name, path string) error {
	segment, err := postgres.ParseSegment(name, f.size)
	if err != nil {
		return err
	}
	return f.ahead.Segment(ctx, segment, path, func(next postgres.Segment) bool { return next.Compare(f.last) <= 0 })
}

func TestABacklogIsFetched(t *testing.T) {
	b := newBed(t, "wal-get")
	names := b.names()
	last, err := postgres.ParseSegment(names[len(names)-1], b.claim.SegmentSize)
	b.must(err)
	dir := os.Getenv("HOWDAH_BENCH_FETCHED")
	b.serve(fetching{NewAhead(wal.New(b.store), b.claim.Lineage, dir, b.claim.SegmentSize), b.claim.SegmentSize, last})
	for _, name := range names {
		b.call(walsocket.VerbFetch, name, filepath.Join(dir, fetched+name))
	}
}
