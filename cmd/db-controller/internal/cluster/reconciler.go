// Package cluster reconciles PostgresClusters.
package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/reading"
	"howdah.dev/howdah/cmd/db-controller/internal/refusals"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// Agents in the pods.
type Agents interface {
	agentclient.StatusClient
	rolling.Agents
}

// Reconciler of PostgresClusters.
type Reconciler struct {
	manager.Dependencies
	// Agents take requests.
	Agents rolling.Agents

	pool    *agentclient.Pool
	secrets secretcache.Cache
	settled apply.Settled
	refused refusals.Memory
	writes  ownwrites.Memory
	pacer   pace.Pacer
	// random is the jitter of pauses, from 0 to 1.
	random func() float64

	rollouts *rollout.Limit
	canaries []string
}

// New makes the reconciler of PostgresClusters.
func New(dependencies manager.Dependencies, all Agents, rollouts rollout.Settings) *Reconciler {
	r := NewWith(dependencies, all, rand.Float64, func(types.NamespacedName) {})
	r.rollouts, r.canaries = rollout.NewLimit(rollouts.MaxConcurrent, dependencies.Now), rollouts.CanaryNamespaces
	return r
}

// NewWith makes one whose jitter, from 0 to 1, is that of random. Until a manager starts it, wake is called with a cluster whose agents
// have something new to say.
func NewWith(dependencies manager.Dependencies, all Agents, random func() float64, wake func(types.NamespacedName)) *Reconciler {
	dependencies.Client = guardedClient{dependencies.Client}
	r := &Reconciler{
		Dependencies: dependencies, Agents: guardedAgents{all}, pool: agentclient.NewPool(all, dependencies.Now, random), random: random,
		rollouts: rollout.NewLimit(0, dependencies.Now),
	}
	r.pool.WakeBy(wake)
	return r
}

// AskAgents asks those agents that no pass has had asked lately.
func (r *Reconciler) AskAgents() { r.pool.AskAgain() }

// Reconcile brings one PostgresCluster nearer to its spec. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, guard := withGuard(ctx)
	result, err := r.loop(req).Reconcile(ctx, req)
	return r.again(req, guard, result, err) //nolint:contextcheck // agents are asked beyond the end of the pass
}

func (r *Reconciler) loop(req ctrl.Request) flow.Loop[*v1alpha1.PostgresCluster, *observed.Cluster] {
	return flow.Loop[*v1alpha1.PostgresCluster, *observed.Cluster]{
		Client: r.Client, Events: r.Events, Object: &v1alpha1.PostgresCluster{}, Summary: v1alpha1.ConditionReady, Expected: expected,
		LogValues: func(*v1alpha1.PostgresCluster) []any { return []any{"cluster", req.String()} },
		Observe:   r.observe, Plan: r.plan, Report: write, Again: r.lookAgain,
		Attach: func(o *observed.Cluster, pass *flow.Pass) { o.Record = pass.Record },
		Delay:  r.pause, Done: r.wrote, Deleted: r.forget,
	}
}

// forget a cluster that no longer exists.
func (r *Reconciler) forget(cluster types.NamespacedName) {
	r.secrets.Forget(cluster)
	r.settled.Forget(cluster)
	r.refused.Forget(cluster)
	r.writes.Forget(cluster)
	r.pacer.Forget(cluster)
	r.pool.Forget(cluster)
	r.rollouts.Done(cluster)
}

// observe reads all that a pass needs, unless the cluster itself is one that this process has overwritten.
func (r *Reconciler) observe(ctx context.Context, cluster *v1alpha1.PostgresCluster) (*observed.Cluster, error) {
	own := r.writes.View(cluster, r.Client, r.Live, r.Now)
	if own.Stale() {
		return &observed.Cluster{Cluster: cluster, Own: own}, ownwrites.ErrStale
	}
	o, err := r.reader().Observe(ctx, cluster, own)
	heed(ctx, o)
	if errors.Is(err, agentclient.ErrNotAsked) {
		return o, check(ctx)
	}
	return o, err
}

func (r *Reconciler) reader() *reading.Reader {
	return &reading.Reader{Client: r.Client, Live: r.Live, Agents: r.pool, Secrets: &r.secrets, Refusals: &r.refused, Now: r.Now, Agent: r.Agent, Images: r.Images}
}

// write reports what was observed, as far as it was.
func write(o *observed.Cluster, outcome flow.Outcome) {
	if !o.Seen {
		report.WriteUnseen(o.Cluster, outcome)
		return
	}
	report.Write(o, outcome)
}

// wrote says to the next passes what this one has written, and what it has met.
func (r *Reconciler) wrote(o *observed.Cluster, pass *flow.Pass, outcome flow.Outcome) {
	if errors.Is(outcome.Err, ownwrites.ErrStale) || errors.Is(outcome.Err, agentclient.ErrNotAsked) {
		return // nothing was done
	}
	if outcome.Err != nil {
		o.Own.Doubt()
	}
	o.Own.Overwrote(pass.Replaced())
	if len(pass.Replaced()) > 0 {
		r.pacer.Written(o.Cluster)
	}
}

// pause is how long to wait before the status is written; 0: not at all.
func (r *Reconciler) pause(o *observed.Cluster, pass *flow.Pass, outcome flow.Outcome) time.Duration {
	if outcome.Kind != flow.KindWait && !outcome.Finished() || outcome.Rewritten || !o.Seen || len(pass.Replaced()) > 0 {
		return 0
	}
	wait := r.pacer.Wait(pass.Before().(*v1alpha1.PostgresCluster), o.Cluster, o.Now)
	if outcome.After > 0 {
		return min(wait, outcome.After)
	}
	return wait
}
