//go:build postgres

package supervise

import (
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

// control is that of the copy that a pod runs last.
func (p *pod) control() postgres.ControlData {
	p.t.Helper()
	binDir, err := postgres.BinDir(p.t.Context(), postgres.Exec, p.config.MajorVersion)
	if err != nil {
		p.t.Fatal(err)
	}
	control, err := postgres.ReadControlData(p.t.Context(), postgres.Exec, binDir, p.Volume.PGData(p.current()))
	if err != nil {
		p.t.Fatal(err)
	}
	return control
}

// All instances are told to end simultaneously, the replica a little before its primary, while clients write. It has everything, by the
// word of its control file, so it can be what leads back after an upgrade has linked the files of the primary: it takes over on data that
// the primary may not start any more, and the primary is cloned from it.
func TestAReplicaThatEndsLastHasEverythingAndLeadsBack(t *testing.T) {
	subset.OneIn(t, 3)
	t.Parallel()
	two, _ := newPair(t)
	two.run()
	acknowledged := two.first.commits()
	config := two.first.config
	config.ReplicasLast = true
	for _, p := range []*pod{two.first, two.second} {
		p.configure(config)
		p.awaitStatus("know in which order to end", func(s agentapi.Status) bool { return s.ConfigHash == config.Hash() })
	}
	two.second.stop() // it hears of it before its primary
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := two.second.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	want := <-acknowledged
	primary, replica := two.first.control(), two.second.control()
	if primary.State != postgres.StateShutDown || replica.State != postgres.StateShutDownRecovery || primary.Checkpoint != replica.Checkpoint {
		t.Fatalf("the primary is %s at %s, and the replica %s at %s", primary.State, primary.Checkpoint, replica.State, replica.Checkpoint)
	}

	if err := two.first.Volume.BeginRewind(two.first.current()); err != nil { // as the Job of the upgrade has
		t.Fatal(err)
	}
	config.ReplicasLast, config.Adoptions, config.DataInstance = false, 1, "shop-1"
	for _, p := range []*pod{two.first, two.second} {
		p.configure(config)
		p.start()
	}
	two.second.await("take over", func() bool { return two.second.public.ready() })
	two.first.awaitStatus("follow", func(s agentapi.Status) bool { return s.Replication != nil && s.Replication.Streaming })
	if got := two.second.rows(); got < want {
		t.Errorf("%d rows were acknowledged, and there are %d", want, got)
	}
	if two.first.current() == "g1" {
		t.Error("the data that was given up runs again")
	}
}

// What a replica has yet to replay delays an end by no more than the limit that it is told.
func TestAReplicaThatHasMuchToReplayDoesNotEndMuchLater(t *testing.T) {
	subset.OnlyInFull(t)
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.second.grace = 2 * time.Minute
	two.run()
	two.second.sql("SELECT pg_wal_replay_pause()")
	two.first.sql("CREATE TABLE public.late AS SELECT 1 AS n")
	config := two.first.config
	config.ReplicasLast, config.ReplayLimitSeconds = true, 1
	for _, p := range []*pod{two.first, two.second} {
		p.configure(config)
		p.awaitStatus("know in which order to end", func(s agentapi.Status) bool { return s.ConfigHash == config.Hash() })
	}
	two.second.stop()
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := two.second.terminate(30 * time.Second); err != nil { // its grace period is longer
		t.Fatal(err)
	}
	if primary, replica := two.first.control(), two.second.control(); primary.Checkpoint == replica.Checkpoint {
		t.Error("the replica replayed everything, so nothing was tested")
	}
}

// A cluster of one has nobody to clone from, and its instance leads whatever it has.
func TestDataThatWasGivenUpIsNotStartedByASingleInstance(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	if err := p.Volume.BeginRewind("g1"); err != nil {
		t.Fatal(err)
	}
	p.start()
	status := p.awaitStatus("refuse it", func(s agentapi.Status) bool { return s.State == agentapi.StateFailed })
	if !strings.Contains(status.Message, "given up") {
		t.Errorf("%+v", status)
	}
}
