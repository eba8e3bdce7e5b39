package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const latency = "ms until a change of a spec is written: median, p99"

// change measures changes while all agents answer.
func (b *bench) change(ctx context.Context) error { return b.changeSome(ctx, "none deaf") }

// changeSome changes the specs of clusters whose agents answer, one at a time, and measures when each change is in the ConfigMap that
// agents read.
func (b *bench) changeSome(ctx context.Context, scenario string) error {
	var took []time.Duration
	for i := range b.settings.changes {
		// From the end: the first ones are those that become deaf.
		d, err := b.changeOne(ctx, b.key(b.n-1-i%max(1, b.n/2)))
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.noteLatency(scenario, latency, took)
	return nil
}

// changeUntil does the same over and over, several times a second, until something else has happened. It returns how long that took.
func (b *bench) changeUntil(ctx context.Context, scenario, what string, happened func() bool) (time.Duration, error) {
	begin := time.Now()
	var took []time.Duration
	for !happened() {
		if time.Since(begin) > b.settings.patience {
			return 0, fmt.Errorf("not within %s: %s", b.settings.patience, what)
		}
		d, err := b.changeOne(ctx, b.key(len(took)%b.n))
		if err != nil {
			return 0, err
		}
		took = append(took, d)
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	whole := time.Since(begin)
	b.noteLatency(scenario, fmt.Sprintf("%s of %d changes meanwhile", latency, len(took)), took)
	return whole, nil
}

func (b *bench) noteLatency(scenario, what string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.note(scenario, what, "%d, %d", took[len(took)/2].Milliseconds(), took[(len(took)*99-1)/100].Milliseconds())
}

func (b *bench) changeOne(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	return b.changeAsSeenBy(ctx, key, b.client)
}

// changeLive doesn't go by this process' own informers, which have to come back themselves after the API server was away.
func (b *bench) changeLive(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	return b.changeAsSeenBy(ctx, key, b.live)
}

func (b *bench) changeAsSeenBy(ctx context.Context, key client.ObjectKey, reader client.Reader) (time.Duration, error) {
	b.changed++
	value := fmt.Sprintf("%dkB", 4096+b.changed)
	begin := time.Now()
	if err := b.patch(ctx, key, fmt.Sprintf(`{"spec":{"postgresql":{"parameters":{"work_mem":%q}}}}`, value)); err != nil {
		return 0, err
	}
	_, err := b.await(ctx, "a change of "+key.String()+" is written", func() bool {
		now, err := readConfig(ctx, reader, key)
		return err == nil && now.Parameters["work_mem"] == value
	})
	return time.Since(begin), err
}
