package archive

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// Operations fail before and after they were done, and the agent is killed again and again: SetTarget gives up what is on
// its way, as its end does, and a new Archiver knows nothing of the one before.
func TestNothingIsAcknowledgedThatTheStoreDoesNotHave(t *testing.T) {
	for seed := range uint64(5) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 1))
		sometimes := func(fault.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(3) == 0 {
				return &objstore.Error{Op: "put", Kind: objstore.ErrUnavailable}
			}
			return nil
		}
		inner := mem.New()
		files := map[string]string{}
		for n := range 12 {
			files[fmt.Sprintf("%08X.history", n+2)] = fmt.Sprintf("1\t0/%X000000\treason\n", n+1)
		}
		flaky := fault.New(inner, fault.Plan{Before: sometimes, After: sometimes})
		dir := newArchiver(t, nil, files).walDir
		born := func(life int) *Archiver {
			a := New(dir, slog.New(slog.DiscardHandler), time.Now, Limits{Patience: time.Minute, LastPatience: time.Minute, Pause: time.Microsecond})
			a.SetTarget(&Target{Store: flaky, Writer: fmt.Sprint("life ", life), Claim: repository.Lineage{
				Lineage: repository.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
				Writer: repository.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15, Created: time.Unix(1, 0).UTC(),
			}})
			return a
		}
		left := files
		for life := 0; len(left) > 0; life++ {
			if life > 1000 {
				t.Fatalf("seed %d: %d files are never archived", seed, len(left))
			}
			a := born(life)
			left = liveOnce(t, a, inner, left, seed)
			a.Close()
		}
	}
}

// liveOnce asks for each file, ends the agent somewhere in between, and returns what was not acknowledged. What was has to
// be in the store at that moment.
func liveOnce(t *testing.T, a *Archiver, store objstore.Store, files map[string]string, seed uint64) map[string]string {
	t.Helper()
	answers := map[string]<-chan error{}
	for name := range files {
		answers[name] = a.ask(name)
	}
	dies := time.AfterFunc(time.Duration(rand.N(2000))*time.Microsecond, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.target != nil {
			a.target.cancel()
		}
	})
	defer dies.Stop()
	left := map[string]string{}
	for name, content := range files {
		if err := <-answers[name]; err != nil {
			left[name] = content
			continue
		}
		got, _, err := wal.New(store).Get(t.Context(), repository.LineageName(system, "g1"), name)
		if err != nil || string(got) != content {
			t.Errorf("seed %d: %s is acknowledged, and the store has %q, %v", seed, name, got, err)
		}
	}
	return left
}
