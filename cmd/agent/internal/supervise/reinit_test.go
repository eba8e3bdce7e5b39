package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

func reinitsOn(volume generation.Volume) *reinits {
	return newReinits(volume, newState("shop-1"), slog.New(slog.DiscardHandler))
}

var (
	firstCopy  = generation.Generation{ID: "g1"}
	secondCopy = generation.Generation{ID: "g1.c1", Of: "g1"}
)

// takes a request, which must be possible.
func (r *reinits) takes(t *testing.T, token string, g generation.Generation, refusal string) agentapi.ReinitStatus {
	t.Helper()
	status, err := r.take(token, g, refusal)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestARequestedCloneIsMadeOnceForEachTokenWhateverEndsInBetween(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	r := reinitsOn(volume)
	if got := r.takes(t, "a", firstCopy, ""); got.State != agentapi.ReinitRunning || !r.wants("g1") || r.wants("g1.c1") {
		t.Fatalf("%+v", got)
	}
	r = reinitsOn(volume) // the agent was killed
	if !r.wants("g1") {
		t.Fatal("the request was forgotten")
	}
	r.takes(t, "a", firstCopy, "")
	r = reinitsOn(volume) // and killed again when it had just adopted the clone
	r.settle(firstCopy, false)
	if r.wants("g1.c1") || !r.running() {
		t.Fatal("the clone would be cloned")
	}
	r.settle(secondCopy, false)
	if got := r.takes(t, "a", secondCopy, ""); got.State != agentapi.ReinitDone || got.Message != "The new copy is g1.c1. The previous one, g1, is kept for a while." {
		t.Errorf("%+v", got)
	}
	if r.takes(t, "b", secondCopy, ""); !r.wants("g1.c1") {
		t.Error("another token is not carried out")
	}
	r = reinitsOn(volume)
	if got := r.takes(t, "a", secondCopy, ""); got.State != agentapi.ReinitRefused {
		t.Errorf("a request that arrives late: %+v", got)
	}
	if !r.wants("g1.c1") || *r.state.Status().Reinit != (agentapi.ReinitStatus{Token: "b", State: agentapi.ReinitRunning}) {
		t.Errorf("it says %+v", r.state.Status().Reinit)
	}
}

func TestWhatComesOfARequestedClone(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(*reinits)
		state  string
		says   string
		clones bool
	}{
		"nothing yet":         {func(r *reinits) { r.settle(firstCopy, false) }, agentapi.ReinitRunning, "", true},
		"one attempt failed":  {func(r *reinits) { r.tried("g1", errors.New("no route")) }, agentapi.ReinitRunning, "Attempt 1 of 3 failed: no route", true},
		"another copy failed": {func(r *reinits) { r.tried("g1.c1", errors.New("no route")) }, agentapi.ReinitRunning, "", true},
		"three attempts failed": {func(r *reinits) {
			for range 3 {
				r.tried("g1", errors.New("no room"))
			}
		}, agentapi.ReinitFailed, "The clone failed 3 times, so the instance continues with the copy that it had. The last time: no room", false},
		"it leads on the copy that it had":     {func(r *reinits) { r.settle(firstCopy, true) }, agentapi.ReinitRefused, "became the primary meanwhile", false},
		"it leads on the new copy":             {func(r *reinits) { r.settle(secondCopy, true) }, agentapi.ReinitDone, "The new copy is g1.c1", false},
		"a restore or upgrade came in between": {func(r *reinits) { r.settle(generation.Generation{ID: "g2"}, false) }, agentapi.ReinitRefused, "runs on other data", false},
	} {
		t.Run(name, func(t *testing.T) {
			volume := generation.Volume(t.TempDir())
			r := reinitsOn(volume)
			r.takes(t, "a", firstCopy, "")
			c.then(r)
			for _, seen := range []*reinits{r, reinitsOn(volume)} {
				got := seen.takes(t, "a", firstCopy, "")
				if got.State != c.state || !strings.Contains(got.Message, c.says) || seen.wants("g1") != c.clones {
					t.Errorf("%+v, and it clones: %v", got, seen.wants("g1"))
				}
			}
		})
	}
}

func TestARefusedCloneStaysRefused(t *testing.T) {
	volume := generation.Volume(t.TempDir())
	r := reinitsOn(volume)
	for range 2 {
		if got := r.takes(t, "a", firstCopy, "It is the primary."); got.State != agentapi.ReinitRefused || r.running() {
			t.Errorf("%+v", got)
		}
	}
	if got := reinitsOn(volume).takes(t, "a", firstCopy, ""); got.Message != "It is the primary." {
		t.Errorf("%+v", got)
	}
}

func TestTokensArePassedOverAsLongAsTheyAreRemembered(t *testing.T) {
	r := reinitsOn(generation.Volume(t.TempDir()))
	for i := range pastTokens + 2 {
		r.takes(t, fmt.Sprint(i), firstCopy, "refused")
	}
	if n := len(r.last.Past); n != pastTokens || r.last.Past[0] != "1" {
		t.Errorf("%d are remembered from %s on", n, r.last.Past[0])
	}
}

func TestNoCloneIsMadeOnRequestWhereTheLastOneIsNotKnown(t *testing.T) {
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "reinit.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := reinitsOn(generation.Volume(volume))
	if _, err := r.take("a", firstCopy, ""); err == nil || r.running() {
		t.Errorf("%v", err)
	}
}
