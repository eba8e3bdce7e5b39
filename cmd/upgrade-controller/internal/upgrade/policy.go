package upgrade

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/manager"
)

// Policy creates the Upgrades that spec.updates.major of PostgresClusters asks for: one that checks, then one that upgrades. It writes
// nothing of the clusters; the db-controller says in their status what majorupdate decides.
type Policy struct {
	manager.Dependencies
}

// policyPause is how often a cluster with a pending version is looked at: not everything that may stand in the way wakes the controller.
const policyPause = 30 * time.Second

// reasonUpgradeCreated is that of the event that says so.
const reasonUpgradeCreated = "UpgradeCreated"

// SetupWithManager watches clusters, and Upgrades of theirs.
func (p *Policy) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("major-updates").
		For(&v1alpha1.PostgresCluster{}).
		Watches(&v1alpha1.Upgrade{}, handler.EnqueueRequestsFromMapFunc(clusterOf)).
		Complete(p)
}

// clusterOf is the cluster that an Upgrade is of.
func clusterOf(_ context.Context, upgrade client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: upgrade.GetNamespace(), Name: upgrade.(*v1alpha1.Upgrade).Spec.Cluster.Name}}}
}

// Reconcile does at most one write, which follows from what the API server itself says. A cache only tells that there is nothing to do.
func (p *Policy) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	decision, cluster, err := p.decide(ctx, p.Client, req)
	if err == nil && decision.Acts() {
		decision, cluster, err = p.decide(ctx, p.Live, req)
	}
	if err != nil || decision.Message == "" {
		return ctrl.Result{}, err
	}
	switch {
	case decision.Create != nil:
		err = p.create(ctx, cluster, decision.Create)
	case decision.Check != nil:
		err = p.record(ctx, decision)
	}
	return ctrl.Result{RequeueAfter: p.again(decision)}, err
}

// again is when to look again: when the window opens, and from time to time.
func (p *Policy) again(decision majorupdate.Decision) time.Duration {
	if left := decision.Opens.Sub(p.Now()); left > 0 {
		return min(left, policyPause)
	}
	return policyPause
}

func (p *Policy) decide(ctx context.Context, reader client.Reader, req ctrl.Request) (majorupdate.Decision, *v1alpha1.PostgresCluster, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := reader.Get(ctx, req.NamespacedName, cluster); err != nil {
		return majorupdate.Decision{}, nil, client.IgnoreNotFound(err)
	}
	if !majorupdate.Wanted(cluster) {
		return majorupdate.Decision{}, nil, nil
	}
	facts, err := readFacts(ctx, reader, cluster)
	if err != nil {
		return majorupdate.Decision{}, nil, err
	}
	facts.Images, facts.Now = p.Images, p.Now()
	return majorupdate.Decide(facts), cluster, nil
}

func (p *Policy) create(ctx context.Context, cluster *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade) error {
	err := p.Client.Create(ctx, upgrade)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // it is seen in the next pass, and whose it is
	case err != nil:
		return fmt.Errorf("create Upgrade %s: %w", upgrade.Name, err)
	}
	does := "upgrades the cluster"
	if upgrade.Spec.CheckOnly {
		does = "checks whether the cluster can be upgraded"
	}
	log.FromContext(ctx).Info("Created an Upgrade", "cluster", cluster.Name, "upgrade", upgrade.Name, "checkOnly", upgrade.Spec.CheckOnly)
	p.Events.Eventf(cluster, upgrade, corev1.EventTypeNormal, reasonUpgradeCreated, reasonUpgradeCreated,
		"Created Upgrade %s, which %s to PostgreSQL %d, because spec.updates.major is Automatic.", upgrade.Name, does, upgrade.Spec.Version)
	return nil
}

// record notes which Upgrade has followed a check, so that none follows once that is deleted.
func (p *Policy) record(ctx context.Context, decision majorupdate.Decision) error {
	check := decision.Check.DeepCopy()
	check.Status.Successor = &v1alpha1.SuccessorUpgrade{Name: decision.Successor.Name, UID: decision.Successor.UID}
	err := p.Client.Status().Patch(ctx, check, client.MergeFromWithOptions(decision.Check, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("record what follows Upgrade %s: %w", check.Name, err)
	}
	return nil
}
