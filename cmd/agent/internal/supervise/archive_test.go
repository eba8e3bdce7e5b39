//go:build postgres

package supervise

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/walsocket"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// archiving makes a pod that archives into a store in memory, which can be taken away.
func archiving(t *testing.T) (*pod, *outage) {
	t.Helper()
	return archivingOn(t, "")
}

func archivingOn(t *testing.T, volume string) (*pod, *outage) {
	t.Helper()
	p := newPodOn(t, volume)
	store := newOutage()
	p.store = store
	config := p.config
	config.Archive = &agentapi.Archive{Repository: objstore.Config{Driver: objstore.DriverMinIO, Endpoint: "http://store", Insecure: true, Bucket: "b"}}
	p.configure(config)
	return p, store
}

func (p *pod) lineage() string {
	return layout.LineageName(p.agent.Status().SystemIdentifier, p.config.DataGeneration)
}

// fill commits something and switches to the next segment; it returns the name of the one before.
func (p *pod) fill() string {
	p.t.Helper()
	p.sql("CREATE TABLE IF NOT EXISTS public.t (i int)")
	p.sql("INSERT INTO public.t SELECT 1")
	return p.sql("SELECT pg_walfile_name(pg_switch_wal() - 1)")
}

func TestWALIsPushedWithTheTimesOfItsCommits(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p, store := archiving(t)
	p.run()
	name := p.fill()
	status := p.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive != nil && s.Archive.LastWAL >= name })
	if status.Archive.Error != "" || status.Archive.LastTime.IsZero() {
		t.Errorf("%+v", status.Archive)
	}
	content, header, err := wal.New(store).Get(t.Context(), p.lineage(), name)
	if err != nil {
		t.Fatal(err)
	}
	if header.LastCommit == nil || header.EndLSN == 0 || !strings.Contains(header.Writer, "shop-0") {
		t.Errorf("%+v", header)
	}
	onDisk, err := os.ReadFile(filepath.Join(p.Volume.PGData("g1"), "pg_wal", name))
	if err == nil && !bytes.Equal(onDisk, content) { // it may be recycled by now
		t.Error("the archive has something else than pg_wal")
	}
	last := p.fill()
	if err := p.terminate(30e9); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wal.New(store).Get(context.Background(), p.lineage(), last); err != nil {
		t.Errorf("what was there at the stop: %v", err)
	}
}

func TestAnOutageOfTheStoreIsShownAndPasses(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p, store := archiving(t)
	p.run()
	first := p.fill()
	p.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive.LastWAL >= first })
	store.away(true)
	var names []string
	for range 6 {
		names = append(names, p.fill())
	}
	status := p.awaitStatus("show the outage", func(s agentapi.Status) bool { return !s.Archive.FailingSince.IsZero() && s.Archive.Waiting >= 6 })
	if !strings.Contains(status.Archive.Error, "can't be reached") {
		t.Errorf("%+v", status.Archive)
	}
	if err := p.agent.Ready(t.Context()); err != nil {
		t.Errorf("the database does not continue: %v", err)
	}
	store.away(false)
	last := names[len(names)-1]
	p.awaitStatus("catch up", func(s agentapi.Status) bool {
		return s.Archive.FailingSince.IsZero() && s.Archive.LastWAL >= last && s.Archive.Waiting == 0
	})
	coverage, err := wal.New(store).Coverage(t.Context(), p.lineage())
	if err != nil || len(coverage.Timelines) != 1 || len(coverage.Timelines[0].Holes) != 0 {
		t.Errorf("%+v, %v", coverage, err)
	}
}

func TestAnotherContentUnderATakenNameIsAConflict(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p, store := archiving(t)
	p.run()
	next := p.fill()
	p.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive.LastWAL >= next })
	current := p.sql("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
	foreign := wal.Info{Writer: "pod other-0 of cluster demo/other (UID uid-2)"}
	if err := wal.New(store).Put(t.Context(), p.lineage(), current, []byte("something else"), foreign); err != nil {
		t.Fatal(err)
	}
	p.fill()
	status := p.awaitStatus("show the conflict", func(s agentapi.Status) bool { return s.Archive.Error != "" })
	for _, writer := range []string{"shop-0", "other-0"} {
		if !strings.Contains(status.Archive.Error, writer) {
			t.Errorf("it doesn't name %s: %s", writer, status.Archive.Error)
		}
	}
	content, _, err := wal.New(store).Get(t.Context(), p.lineage(), current)
	if err != nil || string(content) != "something else" {
		t.Errorf("what was there is now %d bytes, %v", len(content), err)
	}
}

func TestALineageOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p, store := archiving(t)
	generation, err := p.Volume.Read("g1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = layout.Claim(t.Context(), store, layout.Lineage{
		Lineage: layout.LineageName(generation.SystemIdentifier, "g1"), SystemIdentifier: generation.SystemIdentifier,
		Generation: "g1", SegmentSize: 16 << 20, Writer: layout.Writer{UID: "uid-2", Namespace: "demo", Name: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.run()
	status := p.awaitStatus("show it before there is WAL", func(s agentapi.Status) bool { return s.Archive.Error != "" })
	if !strings.Contains(status.Archive.Error, "demo/other") || !strings.Contains(status.Archive.Error, "demo/shop") {
		t.Error(status.Archive.Error)
	}
}

func TestWithoutAnArchiveNoWALPilesUp(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	for range 3 {
		p.fill()
	}
	walDir := filepath.Join(p.Volume.PGData("g1"), "pg_wal")
	p.await("take the WAL for archived", func() bool {
		names, err := archive.Ready(walDir)
		return err == nil && len(names) == 0
	})
	if status := p.agent.Status(); status.Archive != nil {
		t.Errorf("%+v", status.Archive)
	}
}

// outage is a store that can be away.
type outage struct {
	objstore.Store
	gone atomic.Bool
}

func newOutage() *outage {
	o := &outage{}
	o.Store = fault.New(mem.New(), fault.Plan{Before: func(call fault.Call) error {
		if !o.gone.Load() {
			return nil
		}
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		return &objstore.Error{Op: call.Op, Key: call.Key, Bucket: "b", Endpoint: "http://store", Kind: objstore.ErrUnavailable, Err: refused}
	}})
	return o
}

func (o *outage) away(gone bool) { o.gone.Store(gone) }

func TestASocketThatCannotBeOpenedIsWaitedFor(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	obstacle := filepath.Join(p.SocketDir, walsocket.Name, "file")
	if err := os.MkdirAll(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	p.start()
	status := p.awaitStatus("say it", func(s agentapi.Status) bool { return s.State == agentapi.StateFailed })
	if !strings.Contains(status.Message, walsocket.Name) {
		t.Errorf("the message is %q", status.Message)
	}
	if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
		t.Fatal(err)
	}
	p.awaitStatus("start", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning && s.Message == "" })
}
