// Package cluster reconciles PostgresClusters.
package cluster

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/cmd/db-controller/internal/reading"
	"howdah.dev/howdah/cmd/db-controller/internal/report"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/secretcache"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

// Agents in the pods.
type Agents interface {
	reading.Agents
	rolling.Agents
}

// Reconciler of PostgresClusters.
type Reconciler struct {
	// Client reads from the cache, but Secrets, and writes.
	Client client.Client
	// Live reads from the API server itself. What can't be undone is decided on it.
	Live   client.Reader
	Events events.EventRecorder
	Agents Agents
	Now    func() time.Time
	// Agent of pods that are created from now on.
	Agent workload.Agent
	// Images of PostgreSQL by major version.
	Images manager.Images

	secrets secretcache.Cache
	writes  ownwrites.Memory
	pacer   pace.Pacer
}

// Reconcile brings one PostgresCluster nearer to its spec. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.secrets.Forget(req.NamespacedName)
		r.writes.Forget(req.NamespacedName)
		r.pacer.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("cluster", req.String()))
	own := r.writes.View(cluster, r.Client, r.Live, r.Now)
	if own.Stale() {
		return ctrl.Result{RequeueAfter: pace.StaleInterval}, nil
	}
	pass := flow.Begin(r.Client, r.Events, cluster, flow.Announcements{Summary: v1alpha1.ConditionReady, Expected: expected})
	defer func() { r.wrote(cluster, own, pass) }()
	o, err := r.reader().Observe(ctx, cluster, own, pass)
	if errors.Is(err, ownwrites.ErrStale) {
		log.FromContext(ctx).V(1).Info("The cache lags; looking again")
		return ctrl.Result{RequeueAfter: pace.StaleInterval}, nil
	}
	outcome := flow.Retry(err)
	if err == nil {
		outcome = flow.Run(ctx, o, r.plan(o)...)
	}
	if outcome.Err != nil {
		own.Doubt()
	}
	if errors.Is(outcome.Err, ownwrites.ErrTaken) {
		log.FromContext(ctx).V(1).Info("Looking for what is there", "error", outcome.Err.Error())
		return ctrl.Result{RequeueAfter: pace.StaleInterval}, nil
	}
	if o.Seen {
		report.Write(o, outcome)
	} else {
		report.WriteUnseen(cluster, outcome)
	}
	outcome.After = lookAgain(o, outcome)
	if wait := r.pause(o, pass, outcome); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return pass.Commit(ctx, outcome)
}

func (r *Reconciler) reader() *reading.Reader {
	return &reading.Reader{Client: r.Client, Live: r.Live, Agents: r.Agents, Secrets: &r.secrets, Now: r.Now, Agent: r.Agent}
}

// wrote says to the next passes what this one has written.
func (r *Reconciler) wrote(cluster *v1alpha1.PostgresCluster, own *ownwrites.View, pass *flow.Pass) {
	own.Overwrote(pass.Replaced())
	if len(pass.Replaced()) > 0 {
		r.pacer.Written(cluster)
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
