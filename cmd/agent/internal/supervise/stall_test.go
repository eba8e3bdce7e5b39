//go:build postgres

package supervise

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// synchronous has commits of a pair wait for the other one.
func (c *pair) synchronous() {
	for _, p := range []*pod{c.first, c.second} {
		config := p.config
		config.Synchronous = &agentapi.Synchronous{Number: 1, Required: true}
		p.configure(config)
	}
}

func (c *pair) awaitQuorum() {
	c.first.t.Helper()
	c.first.awaitStatus("have a quorum", func(s agentapi.Status) bool { return s.Election != nil && s.Election.Quorum == 1 })
}

// A real file system that stalls: PostgreSQL's processes wait in the kernel, and SIGKILL doesn't end them.
func TestAPrimaryWhoseDiskHangsIsReplacedAndNothingIsLost(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	volume, freeze, thaw := frozenVolume(t)
	two, _ := newPairOn(t, volume)
	two.synchronous()
	two.run()
	acknowledged := two.first.commits()
	two.awaitQuorum()
	freeze()
	began := time.Now()
	two.second.awaitFor(time.Minute, "take over", two.second.public.ready)
	t.Logf("another primary after %v", time.Since(began).Round(time.Millisecond))
	if status := two.first.agent.Status(); status.Disk == nil || status.Disk.StalledSince.IsZero() {
		t.Errorf("the status does not say that the disk doesn't respond: %+v", status.Disk)
	}
	if _, err := os.Stat(two.first.Volume.PGData("g1")); err != nil {
		t.Error(err)
	}
	select {
	case n := <-acknowledged:
		t.Logf("the session has ended after %d rows, while the disk hangs", n)
		acknowledged = closed(n)
	default:
	}
	thaw()
	want := <-acknowledged
	if got := two.second.rows(); got < want {
		t.Errorf("%d rows were acknowledged, and the next primary has %d of them", want, got)
	}
	two.first.awaitStatus("follow, once its disk answers", func(s agentapi.Status) bool {
		return s.Replication != nil && s.Replication.Streaming && s.Disk.StalledSince.IsZero()
	})
}

func closed(n int) <-chan int {
	c := make(chan int, 1)
	c <- n
	return c
}

// slowDisk hangs while it is locked.
type slowDisk struct{ sync.Mutex }

func (d *slowDisk) beat() error {
	d.Lock()
	defer d.Unlock()
	return nil
}

func TestAReplicaWhoseDiskHangsIsNoMember(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	two, _ := newPair(t)
	disk := &slowDisk{}
	two.second.beat = disk.beat
	two.run()
	t.Cleanup(func() { // however the test ends, the agent can
		disk.TryLock()
		disk.Unlock()
	})
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	disk.Lock()
	two.first.awaitStatus("have no member whose disk hangs", func(s agentapi.Status) bool { return len(s.Election.Members) == 0 })
	two.second.awaitStatus("say why it doesn't take over", func(s agentapi.Status) bool { return !s.Disk.StalledSince.IsZero() })
	disk.Unlock()
	two.first.awaitStatus("have a member again", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	if !strings.Contains(two.second.log.String(), "the disks of the volumes respond again") {
		t.Error("nobody has said that the disk answers again")
	}
}
