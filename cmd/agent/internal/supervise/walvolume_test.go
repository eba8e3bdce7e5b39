//go:build postgres

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/space"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/walvolume"
)

func TestClientsOfAFullWALVolumeReadUntilThereIsSpace(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	small := os.Getenv(smallVolume)
	if small == "" {
		t.Skip("needs root, to make a small volume")
	}
	p := newEmptyPod(t, "")
	wal := filepath.Join(small, "wal")
	if err := os.Mkdir(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(wal) })
	if err := os.Symlink(wal, walvolume.Path(string(p.Volume))); err != nil {
		t.Fatal(err)
	}
	p.config.Parameters["max_wal_size"], p.config.Parameters["min_wal_size"] = "64MB", "32MB"
	p.configure(p.config)
	p.init("g1")
	p.run()
	p.await("hold space back", func() bool {
		usage, err := space.Volume(wal).Measure()
		return err == nil && usage.Reserve > 0
	})
	conn, err := p.connect("app", "first", "shop", "")
	if err != nil {
		t.Fatal(err, p.log)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE t (i int)"); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(wal, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	usage, err := space.Volume(wal).Measure()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(filler.Fd()), 0, 0, usage.Free-20<<20); err != nil {
		t.Fatal(err)
	}
	status := p.awaitStatus("see the WAL volume full", func(s agentapi.Status) bool {
		return s.WALVolume != nil && s.WALVolume.State == agentapi.VolumeFull && s.State == agentapi.StateRunning
	})
	if !strings.Contains(status.WALVolume.Cause, "WAL of the data in use takes") || status.Volume == nil || status.Volume.State == agentapi.VolumeFull {
		t.Errorf("%+v, %+v", status.WALVolume, status.Volume)
	}
	p.await("keep clients from writing", func() bool { return isReadOnly(insert(t, conn)) })
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if err := filler.Truncate(0); err != nil {
		t.Fatal(err)
	}
	p.await("let clients write", func() bool { return insert(t, conn) == nil })
}

func TestDataIsNotStartedWithoutItsWAL(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := newEmptyPod(t, "")
	walvolume.Beside(t, string(p.Volume))
	p.init("g1")
	p.run()
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	lost, err := os.Readlink(walvolume.Path(string(p.Volume)))
	if err != nil {
		t.Fatal(err)
	}
	walvolume.Beside(t, string(p.Volume))
	p.start()
	p.awaitFor(time.Minute, "say that the WAL is missing", func() bool {
		return strings.Contains(p.agent.Status().Message, "data generation g1 lacks its WAL: the WAL volume is new or was emptied")
	})
	if p.agent.Status().State == agentapi.StateRunning {
		t.Error("a server runs")
	}
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	link := walvolume.Path(string(p.Volume))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(lost, link); err != nil {
		t.Fatal(err)
	}
	p.run() // with the right volume
}

func TestAReplicaThatHasLostItsWALVolumeIsClonedAgain(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	walvolume.Beside(t, string(two.second.Volume))
	two.run()
	before, err := two.second.Volume.Current()
	if err != nil {
		t.Fatal(err)
	}
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	walvolume.Beside(t, string(two.second.Volume))
	two.second.start()
	two.awaitStreaming()
	after, err := two.second.Volume.Read(before)
	if err == nil {
		t.Errorf("it follows on %+v, whose WAL is lost", after)
	}
	current, err := two.second.Volume.Current()
	if err != nil || current == before || !two.second.Volume.Whole("g1") {
		t.Errorf("current is %s, it was %s, %v", current, before, err)
	}
}
