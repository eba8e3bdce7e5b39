// Package restorecontroller makes the reconciler of Restores for tests that run several controllers in one process, without a manager:
// see test/worlds.
package restorecontroller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/howdah/cmd/restore-controller/internal/restore"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/repostore"
)

// Controller is one process of the restore-controller.
type Controller struct{ reconciler *restore.Reconciler }

// New makes one. Its reads from buckets end with ctx, and wake is called with a Restore when one has ended.
func New(ctx context.Context, dependencies manager.Dependencies, open repostore.Opener, wake func(client.Object)) *Controller {
	c := &Controller{restore.New(ctx, dependencies, open)}
	c.reconciler.WakeBy(wake)
	return c
}

// Reconcile is one pass over a Restore.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.reconciler.Reconcile(ctx, request)
}

// Woken are the Restores that a change of an object wakes.
func (c *Controller) Woken(ctx context.Context, object client.Object) []reconcile.Request {
	return c.reconciler.Woken(ctx, object)
}
