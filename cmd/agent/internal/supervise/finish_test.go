//go:build postgres

package supervise

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// endsAlone has both instances of a pair end while the replica is connected and takes over nothing, and returns what the primary has said.
func (c *pair) endsAlone() (said []agentapi.Shutdown) {
	c.first.t.Helper()
	if err := c.first.terminate(time.Minute); err != nil {
		c.first.t.Fatal(err)
	}
	if err := c.second.terminate(time.Minute); err != nil {
		c.first.t.Fatal(err)
	}
	c.first.public.mu.Lock()
	defer c.first.public.mu.Unlock()
	return c.first.public.ends
}

// A primary whose replica is connected doesn't wait for its archive: the replica has the WAL, and waits. Where that ends as well, as when the
// cluster is deleted, the last commits would be on the volumes alone.
func TestAPrimaryThatEndsArchivesItsLastCommitsAlthoughAReplicaHasThem(t *testing.T) {
	subset.OneIn(t, 3)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, store := newPair(t)
	two.prefer(agentapi.Failover{Never: []string{"shop-1"}})
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return len(s.Election.Members) == 1 })
	two.first.fill()
	two.first.sql("INSERT INTO public.t SELECT 2")
	last := two.first.sql("SELECT pg_walfile_name(pg_current_wal_lsn())")
	said := two.endsAlone()
	if _, _, err := wal.New(store).Get(t.Context(), two.first.lineage(), last); err != nil {
		t.Errorf("the last commits are not archived: %v", err)
	}
	if len(said) != 1 || said[0].Instance != "shop-0" || said[0].DataGeneration != "g1" || len(said[0].Unarchived) > 0 {
		t.Errorf("it says %+v", said)
	}
}

func TestAPrimaryThatEndsWhileTheStoreIsAwaySaysWhatOnlyItsVolumeHas(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, store := newPair(t)
	two.prefer(agentapi.Failover{Never: []string{"shop-1"}})
	two.run()
	first := two.first.fill()
	two.first.awaitStatus("archive", func(s agentapi.Status) bool { return s.Archive != nil && s.Archive.LastWAL >= first })
	store.away(true)
	two.first.sql("INSERT INTO public.t SELECT 2")
	last := two.first.sql("SELECT pg_walfile_name(pg_current_wal_lsn())")
	said := two.endsAlone()
	if len(said) != 1 || len(said[0].Unarchived) == 0 || said[0].Unarchived[0] != last || !strings.Contains(said[0].Error, "can't be reached") {
		t.Errorf("it says %+v, and %s is not archived", said, last)
	}
	names, err := archive.Wanted(two.first.Volume.PGData("g1")+"/pg_wal", 16<<20)
	if err != nil || len(names) == 0 {
		t.Errorf("the server wants nothing archived, so nothing was tested: %v", err)
	}
}

func TestASinglePrimarySaysThatAllIsArchived(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p, _ := archiving(t)
	p.run()
	p.fill()
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	if said := p.public.ends; len(said) != 1 || said[0].Instance != "shop-0" || len(said[0].Unarchived) > 0 {
		t.Errorf("it says %+v", said)
	}
}
