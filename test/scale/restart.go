package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restart kills the db-controller, and measures how long the next one takes until it has looked at all clusters: until the agent of each
// was asked.
func (b *bench) restart(ctx context.Context) error { return b.restartAs(ctx, "kill -9") }

func (b *bench) restartAs(ctx context.Context, scenario string) error {
	db := b.controllers[0]
	db.kill()
	b.fleet.forgetAsked()
	if err := db.start(ctx); err != nil {
		return err
	}
	took, err := b.awaitAsked(ctx)
	if err != nil {
		return err
	}
	b.note(scenario, "s until the db-controller has looked at all", "%.1f", took.Seconds())
	return nil
}

func (b *bench) awaitAsked(ctx context.Context) (time.Duration, error) {
	return b.await(ctx, "each agent was asked", func() bool { return b.fleet.countAsked() == b.n*int(b.settings.instances) })
}

// awayFor is how long the API server is away.
const awayFor = 20 * time.Second

// loseServer kills the API server, and measures from when it serves again.
func (b *bench) loseServer(ctx context.Context) error {
	const scenario = "API server away for 20 s"
	db := b.controllers[0]
	before, err := db.use()
	if err != nil {
		return err
	}
	left := time.Now()
	if err := b.server.leave(ctx, awayFor); err != nil {
		return err
	}
	b.note(scenario, "s from when it was killed until it serves again", "%.0f", time.Since(left).Seconds())
	b.fleet.forgetAsked()
	var asked time.Duration
	both, waiting := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		asked, err = b.awaitAsked(waiting)
		return err
	})
	both.Go(func() error {
		took, err := b.changeLive(waiting, b.key(b.n-1))
		b.note(scenario, "s until a change of a spec is written, from when it serves again", "%.1f", took.Seconds())
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	b.note(scenario, "s until the db-controller has asked each agent, from when it serves again", "%.1f", asked.Seconds())
	after, err := db.use()
	if err != nil {
		return err
	}
	b.note(scenario, "API requests of the db-controller from the beginning on, processor seconds", "%.0f, %.1f", after.requests-before.requests, (after.cpu - before.cpu).Seconds())
	return nil
}

// deafened measures changes and a restart while a share of the agents is deaf.
func (b *bench) deafened(ctx context.Context) error {
	var deaf []client.ObjectKey
	for i := range b.n * b.settings.deaf / 100 {
		for ordinal := range b.settings.instances {
			deaf = append(deaf, podOf(b.key(i), int(ordinal)))
		}
	}
	b.fleet.deafenPods(deaf)
	if err := pause(ctx, 30*time.Second); err != nil { // until that is known
		return err
	}
	share := fmt.Sprintf("%d%% deaf", b.settings.deaf)
	if err := b.changeSome(ctx, share); err != nil {
		return err
	}
	return b.restartAs(ctx, "kill -9, "+share)
}
