//go:build postgres

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestAConfigurationFromBeforeAnAdoptionStartsNothing(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	upgraded := p.init("g2")
	before := p.config // as a backup of etcd has it
	after := before
	after.DataGeneration, after.Adoptions = "g2", 1
	p.configure(after)
	p.start()
	p.awaitStatus("run on the new data", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning })
	if got := p.agent.Status().Adoption; got == nil || got.Number != 1 || got.DataGeneration != "g2" {
		t.Errorf("it tells %+v", got)
	}
	if got := p.agent.Status().Copies; len(got) != 2 || got[0] != (agentapi.Copy{ID: "g1", Of: "g1"}) || got[1] != (agentapi.Copy{ID: "g2", Of: "g2"}) {
		t.Errorf("it says that the volume has %+v", got)
	}
	stale := after
	stale.Adoptions = 0
	p.configure(stale)
	refused := p.awaitStatus("refuse it while it runs", func(s agentapi.Status) bool { return s.ConfigErrorHash == stale.Hash() })
	if refused.ConfigHash != after.Hash() || !strings.Contains(refused.ConfigError, "older than the volume") {
		t.Errorf("%+v", refused)
	}
	if err := p.terminate(10 * time.Second); err != nil {
		t.Error(err)
	}

	p.configure(before)
	p.start()
	status := p.awaitStatus("refuse to start", func(s agentapi.Status) bool { return s.State == agentapi.StateFailed })
	if !strings.Contains(status.Message, "older than the volume") || p.current() != "g2" {
		t.Errorf("current is %s; %+v", p.current(), status)
	}
	known := status.Adoption
	if known == nil || !known.Whole || known.SystemIdentifier != upgraded.SystemIdentifier || known.MajorVersion != p.config.MajorVersion || known.Checkpoint == 0 {
		t.Errorf("whoever decides is told %+v", known)
	}

	decided := before
	decided.Adoptions = 2
	p.configure(decided)
	p.awaitStatus("do as a person has decided", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning })
	if p.current() != "g1" {
		t.Errorf("current is %s", p.current())
	}
	if err := p.terminate(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestAFullVolumeDoesNotKeepWhatIsNewFromBeingNoted: the reserve is for that, too.
func TestAFullVolumeDoesNotKeepWhatIsNewFromBeingNoted(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := smallPod(t)
	p.run()
	p.awaitReserve()
	if err := p.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	p.fillVolume(0)
	p.issueServer()
	p.config.Adoptions = 1
	p.configure(p.config)
	p.start()
	p.awaitStatus("start", func(s agentapi.Status) bool {
		return s.State == agentapi.StateRunning && s.Role == rolePrimary && s.Adoption != nil && s.Adoption.Number == 1
	})
}

// TestAnAdoptionThatCouldNotBeNotedIsTriedAgain: nothing else changes for the agent when a full volume has room again.
func TestAnAdoptionThatCouldNotBeNotedIsTriedAgain(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p := newPod(t)
	inTheWay := filepath.Join(string(p.Volume), "adoption.json.new")
	refuse := func(adoptions int64) {
		t.Helper()
		if err := os.Mkdir(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		p.config.Adoptions = adoptions
		p.configure(p.config)
	}
	mend := func() {
		t.Helper()
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
	}
	refuse(1)
	p.start()
	p.awaitStatus("say why it doesn't start", func(s agentapi.Status) bool {
		return s.State == agentapi.StateFailed && strings.Contains(s.Message, "adoption.json")
	})
	mend()
	p.awaitStatus("start", func(s agentapi.Status) bool {
		return s.State == agentapi.StateRunning && s.ConfigHash == p.config.Hash()
	})
	refuse(2)
	p.awaitStatus("stay with the configuration before", func(s agentapi.Status) bool { return s.ConfigErrorHash == p.config.Hash() })
	mend()
	p.awaitStatus("take it in", func(s agentapi.Status) bool { return s.ConfigHash == p.config.Hash() && s.ConfigError == "" })
}
