// Package cluster reconciles PostgresClusters.
package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agents"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
)

// Finalizer keeps a PostgresCluster until its last backup is taken and its volumes are dealt with.
const Finalizer = "howdah.dev/db-controller"

// FieldManager of everything that is applied.
const FieldManager = "db-controller"

// Agents is what is asked of the agents in the pods.
type Agents interface {
	Status(ctx context.Context, target agents.Target) (*agentapi.Status, error)
	Restart(ctx context.Context, target agents.Target, configHash string) error
	Switchover(ctx context.Context, target agents.Target, request agentapi.SwitchoverRequest) error
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
	// Agent of pods that are made from now on.
	Agent workload.Agent
	// Images of PostgreSQL by major version.
	Images manager.Images

	secrets secretMemo
	writes  ownwrites.Memory
	pacer   pace.Pacer
}

// Reconcile brings one PostgresCluster nearer to its spec. plan is the algorithm; everything else serves it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.secrets.forget(req.NamespacedName)
		r.writes.Forget(req.NamespacedName)
		r.pacer.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("cluster", req.String()))
	own := r.writes.View(cluster, r.Client, r.Live, r.Now)
	if own.Stale() {
		return ctrl.Result{RequeueAfter: staleInterval}, nil
	}
	pass := flow.Begin(r.Client, r.Events, cluster, flow.Announcements{Summary: v1alpha1.ConditionReady, Expected: expected})
	defer func() { r.wrote(cluster, own, pass) }()
	w, err := r.observe(ctx, cluster, own, pass)
	if errors.Is(err, ownwrites.ErrStale) {
		log.FromContext(ctx).V(1).Info("The cache lags; looking again")
		return ctrl.Result{RequeueAfter: staleInterval}, nil
	}
	outcome := flow.Retry(err)
	if err == nil {
		outcome = flow.Run(ctx, w, r.plan(w)...)
	}
	if outcome.Err != nil {
		own.Doubt()
	}
	if errors.Is(outcome.Err, ownwrites.ErrTaken) {
		log.FromContext(ctx).V(1).Info("Looking for what is there", "error", outcome.Err.Error())
		return ctrl.Result{RequeueAfter: staleInterval}, nil
	}
	if w.seen {
		report(w, outcome)
	} else {
		reportUnseen(cluster, outcome)
	}
	outcome.After = lookAgain(w, outcome)
	if wait := r.pause(w, pass, outcome); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return pass.Commit(ctx, outcome)
}

// wrote says to the next passes what this one has written.
func (r *Reconciler) wrote(cluster *v1alpha1.PostgresCluster, own *ownwrites.View, pass *flow.Pass) {
	own.Overwrote(pass.Replaced())
	if len(pass.Replaced()) > 0 {
		r.pacer.Written(cluster)
	}
}

// pause is how long to wait before the status is written; 0: not at all.
func (r *Reconciler) pause(w *world, pass *flow.Pass, outcome flow.Outcome) time.Duration {
	if outcome.Kind != flow.KindWait && !outcome.Finished() || outcome.Rewritten || !w.seen || len(pass.Replaced()) > 0 {
		return 0
	}
	wait := r.pacer.Wait(pass.Before().(*v1alpha1.PostgresCluster), w.cluster, w.now)
	if outcome.After > 0 {
		return min(wait, outcome.After)
	}
	return wait
}

// lookAgain is when to look although nothing woke us.
func lookAgain(w *world, outcome flow.Outcome) time.Duration {
	switch {
	case outcome.Finished():
		return pollInterval(w)
	case w.own.Lags() && outcome.After == 0:
		return unknownInterval // what we go by may be gone
	}
	return outcome.After
}

// How soon to look again at what no watch tells of: the agents' answers.
const (
	staleInterval   = 20 * time.Millisecond
	busyInterval    = time.Second
	unknownInterval = 5 * time.Second
	quietInterval   = 15 * time.Second
)

// pollInterval after a pass that found nothing to do.
func pollInterval(w *world) time.Duration {
	primary := w.primaryAgent()
	if primary != nil && len(primary.Maintenance) > 0 || scaling(w).reason != "" || resizing(w).reason != "" {
		return busyInterval
	}
	interval := declaredInterval(w)
	for ordinal := range max(w.reach(), w.wanted()) {
		agent := w.agent(ordinal)
		switch {
		case agent == nil || agent.Rejoin != nil:
			interval = unknownInterval
		case !configApplied(agent, w.agentConfig().Hash()) || len(w.pending(ordinal)) > 0 && w.windowOpen():
			return busyInterval
		case ordinal != w.primary() && (w.behind(agent.Pod, agent) != "" || !counted(primary, agent.Pod)):
			if w.joining(ordinal) {
				return busyInterval
			}
			interval = unknownInterval
		}
	}
	return interval
}

// counted: the primary has the instance among those that may take over.
func counted(primary *agentapi.Status, name string) bool {
	return primary == nil || primary.Election == nil || slices.Contains(primary.Election.Members, name)
}

// joinTime is how long a replica may take until it follows and counts, from when its pod is ready, or when Replicated has become
// false; then something is wrong.
const joinTime = 30 * time.Second

// joining: the replica may follow and count any moment.
func (w *world) joining(ordinal int) bool {
	var since time.Time
	if pod := w.pod(ordinal); pod != nil && podReady(pod) {
		since = readyCondition(pod).LastTransitionTime.Time
	}
	all := meta.FindStatusCondition(w.cluster.Status.Conditions, v1alpha1.ConditionReplicated)
	if all != nil && all.Status == metav1.ConditionFalse && all.LastTransitionTime.After(since) {
		since = all.LastTransitionTime.Time
	}
	return w.now.Sub(since) < joinTime
}
