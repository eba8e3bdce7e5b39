//go:build postgres

package supervise

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestAPrimaryRemovesACopyThatWasReplacedLongAgo: it may have taken over soon after it was cloned, and lead for years.
func TestAPrimaryRemovesACopyThatWasReplacedLongAgo(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	p := newPod(t)
	p.run()
	copied, err := p.Volume.Read("g1")
	if err != nil {
		t.Fatal(err)
	}
	for id, since := range map[string]time.Duration{"g1.c1": 2 * time.Hour, "g1.c2": time.Minute} {
		if _, err := p.Volume.Begin(id); err != nil {
			t.Fatal(err)
		}
		copied.ID, copied.Of, copied.Origin = id, "g1", generation.Clone
		mark := filepath.Join(p.Volume.Dir(id), "replaced")
		if err := os.WriteFile(mark, []byte(time.Now().Add(-since).UTC().Format(time.RFC3339)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Volume.Complete(copied); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitFor(20*time.Second, "remove the copy that was replaced long ago", func() bool {
		_, err := os.Stat(p.Volume.Dir("g1.c1"))
		return os.IsNotExist(err)
	})
	if _, err := p.Volume.Read("g1.c2"); err != nil {
		t.Errorf("the copy that was replaced a minute ago: %v", err)
	}
	if current, err := p.Volume.Current(); err != nil || current != "g1" {
		t.Errorf("it runs %s, %v", current, err)
	}
}
