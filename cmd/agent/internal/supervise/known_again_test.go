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

// TestAVolumeThatCouldNotBeReadAtFirstIsLookedAtAgain: nobody else may be primary, as only this instance is known to have everything.
func TestAVolumeThatCouldNotBeReadAtFirstIsLookedAtAgain(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	two, _ := newPair(t)
	two.first.run()
	if err := two.first.terminate(time.Minute); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(two.first.Volume.PGData("g1"), "global", "pg_control")
	if err := os.Rename(control, control+".away"); err != nil {
		t.Fatal(err)
	}
	two.first.start()
	two.first.awaitStatus("miss its data", func(s agentapi.Status) bool {
		return s.Election != nil && strings.Contains(s.Election.Waiting, "no longer has a complete copy of the data")
	})
	if err := os.Rename(control+".away", control); err != nil {
		t.Fatal(err)
	}
	two.first.awaitStatus("serve", func(s agentapi.Status) bool { return s.State == agentapi.StateRunning && s.Role == rolePrimary })
}
