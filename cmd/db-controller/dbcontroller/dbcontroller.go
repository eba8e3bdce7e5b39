// Package dbcontroller makes the reconciler of PostgresClusters for tests that run several controllers in one process, without a
// manager: see test/worlds.
package dbcontroller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/cluster"
	"howdah.dev/howdah/pkg/manager"
)

// Agents in the pods, in place of those that are asked over the network.
type Agents = cluster.Agents

// Target is the agent of one pod.
type Target = agentclient.Target

// Controller is one process of the db-controller.
type Controller struct{ reconciler *cluster.Reconciler }

// New makes one. It knows nothing of what another has done. random is the jitter of its pauses, from 0 to 1, and wake is called with a
// cluster whose agents have something new to say.
func New(dependencies manager.Dependencies, all Agents, random func() float64, wake func(types.NamespacedName)) *Controller {
	return &Controller{cluster.NewWith(dependencies, all, random, wake)}
}

// Reconcile is one pass over a PostgresCluster.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.reconciler.Reconcile(ctx, request)
}

// AskAgents asks those agents that no pass has had asked lately, as a running process does every second.
func (c *Controller) AskAgents() { c.reconciler.AskAgents() }

// Woken are the PostgresClusters that a change of an object wakes, but for those of a BackupRepository.
func Woken(ctx context.Context, object client.Object) []reconcile.Request {
	return cluster.Woken(ctx, object)
}
