//go:build e2e

package e2e

import (
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/test/testkit/place"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // what controllers say is in their pods
	os.Exit(m.Run())
}

// versitygw belongs to one test at a time: some take it away.
var versitygw sync.Mutex

// versions are those of PostgreSQL that there are images of, oldest first.
var versions = []int32{15, 17, 18}

// onlyInFull leaves a test to `make test-full`.
func onlyInFull(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("only make test-full has it:", why)
	}
}

// versionsToTry are fewer where the agent's own tests try the others, unless everything is to be tried.
func versionsToTry() []int32 {
	if testing.Short() {
		return versions[len(versions)-1:]
	}
	return versions
}

// bed is the place of a test of the suite.
type bed struct{ *place.Place }

func newBed(t *testing.T, server string) *bed {
	t.Helper()
	if server == "versitygw" {
		versitygw.Lock()
		t.Cleanup(versitygw.Unlock)
	}
	return &bed{place.New(t, server)}
}
