//go:build e2e

package e2e

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/test/testkit/place"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // what controllers say is in their pods
	os.Exit(m.Run())
}

// bed is the place of a test of the suite.
type bed struct{ *place.Place }

func newBed(t *testing.T, server string) *bed {
	t.Helper()
	return &bed{place.New(t, server)}
}
