//go:build postgres

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/space"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// smallVolume names a folder that is a small file system, for tests that fill it. Only root can make one.
const smallVolume = "TEST_SMALL_VOLUME"

func mountSmall() (unmount func()) {
	dir, err := os.MkdirTemp("", "small")
	if err == nil {
		err = unix.Mount("small", dir, "tmpfs", 0, "size=320m,mode=0777")
	}
	if err == nil {
		err = os.Setenv(smallVolume, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no volume can be filled:", err)
	}
	return func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = os.Remove(dir)
	}
}

// smallPod has a volume that can be filled.
func smallPod(t *testing.T) *pod {
	t.Helper()
	dir := os.Getenv(smallVolume)
	if dir == "" {
		t.Skip("needs root, to make a small volume")
	}
	volume := filepath.Join(dir, "volume")
	t.Cleanup(func() { os.RemoveAll(volume) })
	p := newPodOn(t, volume)
	p.config.Parameters["max_wal_size"] = "64MB"
	p.config.Parameters["min_wal_size"] = "32MB"
	p.configure(p.config)
	return p
}

// fillVolume leaves so much on the volume; it returns how to take that back.
func (p *pod) fillVolume(left int64) (drain func()) {
	p.t.Helper()
	path := filepath.Join(string(p.Volume), "filler")
	file, err := os.Create(path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close()
	for range 50 { // the server begins a segment meanwhile
		usage, err := space.Volume(p.Volume).Measure()
		if err != nil {
			p.t.Fatal(err)
		}
		if err = unix.Fallocate(int(file.Fd()), 0, 0, usage.Free-left); err == nil {
			break
		} else if !errors.Is(err, unix.ENOSPC) {
			p.t.Fatal(err)
		}
	}
	return func() { os.Remove(path) }
}

func (p *pod) awaitVolume(state string) agentapi.Status {
	p.t.Helper()
	return p.awaitStatus("see the volume "+state, func(s agentapi.Status) bool {
		return s.Volume != nil && s.Volume.State == state && s.State == agentapi.StateRunning
	})
}

func (p *pod) awaitReserve() {
	p.t.Helper()
	p.await("hold space back", func() bool {
		usage, err := space.Volume(p.Volume).Measure()
		return err == nil && usage.Reserve > 0
	})
}

// insert writes a row as the application does, in a session that is open.
func insert(t *testing.T, conn *pgx.Conn) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1)")
	return err
}

// isReadOnly says that a write was refused because only reading is allowed.
func isReadOnly(err error) bool {
	fault := &pgconn.PgError{}
	return errors.As(err, &fault) && fault.Code == "25006"
}

func TestClientsOfAFullVolumeReadUntilThereIsSpace(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := smallPod(t)
	p.run()
	p.awaitReserve()
	conn, err := p.connect("app", "first", "shop", "")
	if err != nil {
		t.Fatal(err, p.log)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE t (i int)"); err != nil {
		t.Fatal(err)
	}
	drain := p.fillVolume(20 << 20)
	status := p.awaitVolume(agentapi.VolumeFull)
	if !strings.Contains(status.Volume.Cause, "of 320 MiB are free; WAL takes") || status.Volume.WALBytes == 0 || status.Volume.Bytes != 320<<20 {
		t.Errorf("%+v", status.Volume)
	}
	p.await("keep clients from writing", func() bool { return isReadOnly(insert(t, conn)) })
	if _, err := conn.Exec(t.Context(), "BEGIN READ WRITE; TRUNCATE t; COMMIT"); err != nil {
		t.Errorf("nobody can make room: %v", err)
	}
	if p.agent.Ready(t.Context()) != nil {
		t.Error("it doesn't serve")
	}
	drain()
	p.awaitVolume("")
	p.await("let clients write", func() bool { return insert(t, conn) == nil })
}

// Others write at that moment, and take whatever is released.
func TestAServerOnAFullVolumeLeavesEnoughOfTheReserveToRecover(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := smallPod(t)
	p.run()
	p.awaitReserve()
	drain := p.fillVolume(1 << 20)
	taken, err := os.Create(filepath.Join(string(p.Volume), "taken"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			_, _ = taken.Write(make([]byte, 4096))
		}
	})
	fell := func() bool { return strings.Contains(p.log.String(), "released the reserve") } // the server wrote WAL just then, and recovers with all of the reserve
	p.await("look after its clients", func() bool {
		return fell() || strings.Contains(p.log.String(), "can't switch clients") || strings.Contains(p.log.String(), "changed whether clients")
	})
	stop()
	writing.Wait()
	usage, err := space.Volume(p.Volume).Measure()
	if err != nil || usage.Reserve < 32<<20 && !fell() {
		t.Errorf("%+v, %v", usage, err)
	}
	if err := errors.Join(taken.Close(), os.Remove(taken.Name())); err != nil {
		t.Error(err)
	}
	drain()
	p.awaitVolume("")
}

func TestAServerThatFellOverAFullVolumeComesBackForReaders(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := smallPod(t)
	p.run()
	p.awaitReserve()
	drain := p.fillVolume(1 << 20)
	p.awaitVolume(agentapi.VolumeFull)
	usage, err := space.Volume(p.Volume).Measure()
	if err != nil {
		t.Fatal(err)
	}
	if usage.Reserve > 0 { // otherwise it has fallen already, and comes back on the reserve
		err = p.agent.server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)) FROM generate_series(1, 200)")
			return err
		})
		if err == nil {
			t.Fatal("the volume did not become full")
		}
	}
	p.await("serve readers again", func() bool {
		conn, err := p.connect("app", "first", "shop", "")
		if err != nil {
			return false
		}
		defer conn.Close(t.Context()) // there are few, and one is taken each time
		_, err = conn.Exec(t.Context(), "CREATE TABLE t (i int)")
		return isReadOnly(err)
	})
	p.awaitVolume(agentapi.VolumeFull)
	if err := p.terminate(time.Minute); err != nil {
		t.Errorf("it can't be shut down in order: %v\n%s", err, p.log)
	}
	drain()
	p.run()
	p.awaitReserve()
	p.awaitVolume("")
}
