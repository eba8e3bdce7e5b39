//go:build postgres

package supervise

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestTheVolumeSaysWhatItKnowsOfTheData(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	i := &instance{Options: Options{Paths: p.Paths, Log: slog.New(slog.DiscardHandler)}}
	found := i.known(t.Context(), "g1")
	if !found.whole || found.timeline != 1 || found.checkpoint.Timeline != 1 || found.checkpoint.LSN == 0 {
		t.Errorf("%+v", found)
	}
	pgdata := p.Volume.PGData("g1")
	if err := settings.MarkStandby(pgdata); err != nil || found.standby || !i.known(t.Context(), "g1").standby {
		t.Errorf("a replica's: %+v, %v", i.known(t.Context(), "g1"), err)
	}
	p.write(filepath.Join(pgdata, "pg_wal", "00000007.history"), "")
	if found := i.known(t.Context(), "g1"); found.timeline != 7 {
		t.Errorf("%+v", found)
	}
	if err := os.Truncate(filepath.Join(pgdata, "global", "pg_control"), 0); err != nil {
		t.Fatal(err)
	}
	if found := i.known(t.Context(), "g1"); found.whole {
		t.Errorf("%+v", found)
	}
}

func TestTheLeaseSaysHowFarPrimaryAndReplicaAreAtLeast(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	two.first.awaitStatus("have a member", func(s agentapi.Status) bool { return s.Election != nil && len(s.Election.Members) > 0 })
	two.first.await("write how far they are", func() bool {
		written := two.lease.annotations()
		return marks.MatchString(written[len(written)-1])
	})
}

var marks = regexp.MustCompile(`"checkpoint":\{"timeline":1,"lsn":[1-9].*"replayed":\{"timeline":1,"lsn":[1-9]`)
