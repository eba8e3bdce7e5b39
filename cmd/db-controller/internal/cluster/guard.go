package cluster

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// askedInterval is how soon to look again after agents were asked, should nothing wake us.
const askedInterval = 5 * time.Second

// guard of one pass. A pass that goes by older answers of agents is closed: it may find that there is nothing to do, and writes
// nothing, neither objects nor status, and requests nothing of an agent. What it wanted to write is decided anew as soon as
// all agents were asked.
type guard struct {
	closed, refused bool
	// priority of the next look at the cluster.
	priority int
}

type guardKey struct{}

func withGuard(ctx context.Context) (context.Context, *guard) {
	g := &guard{}
	return context.WithValue(ctx, guardKey{}, g), g
}

// check is the error of a write.
func check(ctx context.Context) error {
	g, _ := ctx.Value(guardKey{}).(*guard)
	if g == nil || !g.closed {
		return nil
	}
	g.refused = true
	return agentclient.ErrNotAsked
}

// heed takes note of what a pass has observed: its guard is closed if the answers are not of now.
func heed(ctx context.Context, o *observed.Cluster) {
	if g, _ := ctx.Value(guardKey{}).(*guard); g != nil {
		g.closed, g.priority = o.AgentsOld, priorityOf(o.Cluster)
	}
}

// quietly lets steps of a closed pass say nothing: what they are about to do, they don't.
func quietly(o *observed.Cluster, all steps) steps {
	if !o.AgentsOld {
		return all
	}
	for i, step := range all {
		all[i] = func(ctx context.Context, o *observed.Cluster) flow.Outcome {
			return step(log.IntoContext(ctx, logr.Discard()), o)
		}
	}
	return all
}

// again replaces the result of a pass that was refused a write, or had no answers at all.
func (r *Reconciler) again(request ctrl.Request, g *guard, result ctrl.Result, err error) (ctrl.Result, error) {
	if !g.refused {
		return g.ranked(result), err
	}
	r.pool.Demand(request.NamespacedName)
	return g.ranked(ctrl.Result{RequeueAfter: askedInterval}), nil
}

// guardedClient writes in passes that may.
type guardedClient struct{ client.Client }

func (c guardedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.Create(ctx, object, options...)
}

func (c guardedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.Delete(ctx, object, options...)
}

func (c guardedClient) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.DeleteAllOf(ctx, object, options...)
}

func (c guardedClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.Update(ctx, object, options...)
}

func (c guardedClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

func (c guardedClient) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return c.Client.Apply(ctx, configuration, options...)
}

func (c guardedClient) Status() client.SubResourceWriter { return guardedStatus{c.Client.Status()} }

func (c guardedClient) SubResource(name string) client.SubResourceClient {
	sub := c.Client.SubResource(name)
	return guardedSubResource{sub, guardedStatus{sub}}
}

// guardedSubResource reads always.
type guardedSubResource struct {
	client.SubResourceReader
	client.SubResourceWriter
}

type guardedStatus struct{ client.SubResourceWriter }

func (s guardedStatus) Create(ctx context.Context, object, sub client.Object, options ...client.SubResourceCreateOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Create(ctx, object, sub, options...)
}

func (s guardedStatus) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Update(ctx, object, options...)
}

func (s guardedStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, object, patch, options...)
}

func (s guardedStatus) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if err := check(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Apply(ctx, configuration, options...)
}

// guardedAgents take requests of passes that may.
type guardedAgents struct{ rolling.Agents }

func (a guardedAgents) Restart(ctx context.Context, target agentclient.Target, configHash string) error {
	if err := check(ctx); err != nil {
		return err
	}
	return a.Agents.Restart(ctx, target, configHash)
}

func (a guardedAgents) Switchover(ctx context.Context, target agentclient.Target, request agentapi.SwitchoverRequest) error {
	if err := check(ctx); err != nil {
		return err
	}
	return a.Agents.Switchover(ctx, target, request)
}

func (a guardedAgents) Reinit(ctx context.Context, target agentclient.Target, request agentapi.ReinitRequest) error {
	if err := check(ctx); err != nil {
		return err
	}
	return a.Agents.Reinit(ctx, target, request)
}

func (a guardedAgents) Fault(ctx context.Context, target agentclient.Target, request agentapi.FaultRequest) error {
	if err := check(ctx); err != nil {
		return err
	}
	return a.Agents.Fault(ctx, target, request)
}
