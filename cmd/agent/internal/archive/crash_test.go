package archive

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// Operations fail before and after they were done, and the agent is killed again and again, after some number of them:
// SetTarget gives up what is on its way, as its end does, and a new Archiver knows nothing of the one before.
func TestNothingIsAcknowledgedThatTheStoreDoesNotHave(t *testing.T) {
	for seed := range uint64(5) {
		c := &crashes{random: rand.New(rand.NewPCG(seed, 1))}
		inner := mem.New()
		left := map[string]string{}
		for n := range 12 {
			left[fmt.Sprintf("%08X.history", n+2)] = fmt.Sprintf("1\t0/%X000000\treason\n", n+1)
		}
		flaky := fault.New(inner, fault.Plan{Before: c.before, After: c.after})
		dir := newArchiver(t, nil, left).walDir
		for life := 0; len(left) > 0; life++ {
			if life > 1000 {
				t.Fatalf("seed %d: %d files are never archived", seed, len(left))
			}
			a := New(dir, slog.New(slog.DiscardHandler), time.Now, Limits{Patience: time.Minute, LastPatience: time.Minute, Pause: time.Microsecond})
			a.SetTarget(&Target{Store: flaky, Writer: fmt.Sprint("life ", life), Claim: layout.Lineage{
				Lineage: layout.LineageName(system, "g1"), SystemIdentifier: system, Generation: "g1", SegmentSize: postgres.DefaultSegSize,
				Writer: layout.Writer{UID: "u", Namespace: "demo", Name: "shop"}, PGMajor: 15, Created: time.Unix(1, 0).UTC(),
			}})
			c.next(a.target.cancel)
			left = liveOnce(t, a, inner, left, seed)
			a.Close()
		}
	}
}

// crashes has operations fail, and ends a life after some of them. Time has no part in it, so that a slow machine does as
// much in a life as a fast one.
type crashes struct {
	mu     sync.Mutex
	random *rand.Rand
	left   int // operations until the end of this life
	kill   func()
}

// next begins a life.
func (c *crashes) next(kill func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.kill = 1+c.random.IntN(60), kill
}

func (c *crashes) before(fault.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		c.kill()
	}
	return c.fail()
}

func (c *crashes) after(fault.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fail()
}

func (c *crashes) fail() error {
	if c.random.IntN(3) == 0 {
		return &objstore.Error{Op: "put", Kind: objstore.ErrUnavailable}
	}
	return nil
}

// liveOnce asks for each file, in a life that may end in between, and returns what was not acknowledged. What was has to
// be in the store at that moment.
func liveOnce(t *testing.T, a *Archiver, store objstore.Store, files map[string]string, seed uint64) map[string]string {
	t.Helper()
	answers := map[string]<-chan error{}
	for name := range files {
		answers[name] = a.ask(name)
	}
	left := map[string]string{}
	for name, content := range files {
		if err := <-answers[name]; err != nil {
			left[name] = content
			continue
		}
		got, _, err := wal.New(store).Get(t.Context(), layout.LineageName(system, "g1"), name)
		if err != nil || string(got) != content {
			t.Errorf("seed %d: %s is acknowledged, and the store has %q, %v", seed, name, got, err)
		}
	}
	return left
}
