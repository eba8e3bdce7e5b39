//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// A clone leaves what it replaces, and it is removed later: neither comes with another configuration.
func TestWhichCopiesAVolumeHasIsToldWheneverThatChanges(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	copied, err := p.Volume.Read("g1")
	if err == nil {
		_, err = p.Volume.Begin("g1.c1")
	}
	if err != nil {
		t.Fatal(err)
	}
	copied.ID, copied.Of, copied.Origin = "g1.c1", "g1", generation.Clone
	if err := p.Volume.Complete(copied); err != nil {
		t.Fatal(err)
	}
	p.awaitFor(20*time.Second, "tell of the other copy", func() bool { return len(p.agent.Status().Copies) == 2 })
	if err := p.Volume.Remove("g1.c1"); err != nil {
		t.Fatal(err)
	}
	p.awaitFor(20*time.Second, "tell that the other copy is gone", func() bool { return len(p.agent.Status().Copies) == 1 })
}
