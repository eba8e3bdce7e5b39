// Package upgradecontroller makes the reconciler of Upgrades for tests that run several controllers in one process, without a manager:
// see test/worlds.
package upgradecontroller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/howdah/cmd/upgrade-controller/internal/upgrade"
	"howdah.dev/howdah/pkg/manager"
)

// Controller is one process of the upgrade-controller.
type Controller struct{ reconciler *upgrade.Reconciler }

// New makes one.
func New(dependencies manager.Dependencies) *Controller {
	return &Controller{upgrade.New(dependencies)}
}

// Reconcile is one pass over an Upgrade.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.reconciler.Reconcile(ctx, request)
}

// Woken are the Upgrades that a change of an object wakes.
func (c *Controller) Woken(ctx context.Context, object client.Object) []reconcile.Request {
	return c.reconciler.Woken(ctx, object)
}
