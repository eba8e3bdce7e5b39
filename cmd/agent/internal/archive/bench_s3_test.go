//go:build s3

package archive

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/walsocket"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/postgres"
)

// TestABacklogIsPushed measures, where HOWDAH_BENCH_WAL names a folder of segments and HOWDAH_BENCH_AGENT the agent.
func TestABacklogIsPushed(t *testing.T) {
	from, agent := os.Getenv("HOWDAH_BENCH_WAL"), os.Getenv("HOWDAH_BENCH_AGENT")
	if from == "" {
		t.Skip("HOWDAH_BENCH_WAL names no folder")
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if err := os.Link(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "archive_status", name+".ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	first, err := os.ReadFile(filepath.Join(from, names[0]))
	if err != nil {
		t.Fatal(err)
	}
	scan, err := postgres.ScanWAL(first, postgres.WALTail{})
	if err != nil {
		t.Fatal(err)
	}
	system := fmt.Sprint(scan.SystemIdentifier)
	bundle, err := os.ReadFile(os.Getenv("S3_CA_FILE"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := open.Plain(t.Context(), objstore.Config{
		Driver: objstore.DriverMinIO, Endpoint: os.Getenv("S3_ENDPOINT"), Region: os.Getenv("AWS_REGION"), Bucket: os.Getenv("S3_BUCKET"),
		PathStyle: true, Prefix: fmt.Sprintf("bench-%x", rand.Uint32()), CABundle: string(bundle),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := New(dir, slog.Default(), time.Now, DefaultLimits())
	defer a.Close()
	a.SetTarget(&Target{Store: store, Writer: "bench", Memory: 64 << 20, Claim: repository.Lineage{
		Lineage: repository.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
		Writer: repository.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15, Created: time.Unix(1, 0).UTC(),
	}})
	socket, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(socket)
	listener, err := walsocket.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	go walsocket.Serve(t.Context(), listener, a)
	began := time.Now()
	for _, name := range names {
		if out, err := exec.Command("/bin/sh", "-c", agent+" archive-wal --socket-dir "+socket+" "+filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		note := filepath.Join(dir, "archive_status", name)
		if err := os.Rename(note+".ready", note+".done"); err != nil {
			t.Fatal(err)
		}
	}
	wall := time.Since(began)
	usage, children := syscall.Rusage{}, syscall.Rusage{}
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	var stored int64
	for info, err := range store.List(t.Context(), "lineages/", "") {
		if err != nil {
			t.Fatal(err)
		}
		stored += info.Size
	}
	cpu := func(u syscall.Rusage) float64 {
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	fmt.Printf("%d segments in %.1f s: %.1f/s, %.1f CPU s + %.1f of commands, peak %d MiB, stored %d MiB\n", len(names), wall.Seconds(),
		float64(len(names))/wall.Seconds(), cpu(usage), cpu(children), usage.Maxrss>>10, stored>>20)
}
