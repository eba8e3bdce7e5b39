// Package pause suspends the automatic repair of a cluster for a while, and its failover if that is wanted, and ends that again.
package pause

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/await"
)

// longest pause that the API server accepts.
const longest = 24 * time.Hour

// slack is how far the clock of this machine may be ahead of the ones that the pause is for.
const slack = 5 * time.Minute

// Request is a pause that a person asks for.
type Request struct {
	For      time.Duration
	Failover bool
	Wait     bool
	Timeout  time.Duration
}

// Begin writes the pause into the cluster, and waits until the db-controller says that it has begun, if that is wanted: the clock of this machine
// may be wrong.
func (r Request) Begin(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time, out io.Writer) error {
	if r.For < time.Second || r.For > longest {
		return fmt.Errorf("--for must be from 1s to 24h, such as 2h; it is %s", r.For)
	}
	until := metav1.NewTime(now.UTC().Truncate(time.Second).Add(r.For.Truncate(time.Second)))
	from := metav1.NewTime(until.Add(-min(r.For.Truncate(time.Second)+slack, longest)))
	cluster, err := change(ctx, c, key, func(spec *v1alpha1.PostgresClusterSpec) {
		if spec.Repair == nil {
			spec.Repair = &v1alpha1.Repair{}
		}
		spec.Repair.PausedFrom, spec.Repair.PausedUntil = &from, &until
		if r.Failover && spec.Failover == nil {
			spec.Failover = &v1alpha1.Failover{}
		}
		if r.Failover {
			spec.Failover.PausedUntil = &until
		}
	})
	if err != nil {
		return err
	}
	if !r.Wait {
		fmt.Fprintf(out, "Requested. The condition AutomaticRepair of postgrescluster/%s says when it is so. %s\n", key.Name, takeover(cluster, now))
		return nil
	}
	if cluster, err = r.await(ctx, c, key, cluster); err != nil {
		return err
	}
	fmt.Fprintf(out, "Automatic repair of %s is paused until %s: an instance that fails is not restarted, rewound or cloned. %s\n",
		key.Name, until.UTC().Format(time.RFC3339), takeover(cluster, now))
	return nil
}

// takeover says what happens to a primary that fails. An earlier pause of failover may be longer or shorter than that of repairs.
func takeover(cluster *v1alpha1.PostgresCluster, now time.Time) string {
	failover, repair := cluster.Spec.Failover, cluster.Spec.Repair
	switch {
	case failover == nil || failover.PausedUntil == nil || !now.Before(failover.PausedUntil.Time):
		return "If the primary fails, another instance still takes over; --failover pauses that as well."
	case failover.PausedUntil.Equal(repair.PausedUntil):
		return "If the primary fails, no instance takes over either."
	}
	return fmt.Sprintf("If the primary fails, no instance takes over before %s, as spec.failover.pausedUntil says; kubectl howdah resume %s ends both pauses.",
		failover.PausedUntil.UTC().Format(time.RFC3339), cluster.Name)
}

// await waits until the db-controller has seen what was written, and says that the pause has begun.
func (r Request) await(ctx context.Context, c client.Client, key client.ObjectKey, written *v1alpha1.PostgresCluster) (*v1alpha1.PostgresCluster, error) {
	cluster, err := await.Cluster(ctx, c, key, r.Timeout, func(cluster *v1alpha1.PostgresCluster) (bool, error) {
		if repair := cluster.Spec.Repair; repair == nil || !repair.PausedUntil.Equal(written.Spec.Repair.PausedUntil) {
			return false, errors.New("somebody else has changed spec.repair in the meantime")
		}
		if r.Failover && !paused(cluster, v1alpha1.ConditionAutomaticFailover, written.Generation) &&
			meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionAutomaticFailover) != nil { // a single instance has none
			return false, nil
		}
		return paused(cluster, v1alpha1.ConditionAutomaticRepair, written.Generation), nil
	})
	if await.Unanswered(err) {
		return nil, fmt.Errorf("%w; the pause is in spec.repair, but the db-controller doesn't say that it has begun%s", err, said(cluster, written.Generation))
	}
	return cluster, err
}

// paused says whether a condition does, of what was written or of something later.
func paused(cluster *v1alpha1.PostgresCluster, kind string, generation int64) bool {
	c := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	return c != nil && c.ObservedGeneration >= generation && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonPaused
}

// said is why it may not have begun.
func said(cluster *v1alpha1.PostgresCluster, generation int64) string {
	c := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionAutomaticRepair)
	if c == nil || c.ObservedGeneration < generation {
		return ": make sure that it runs"
	}
	return ". Check the clock of this machine: " + c.Message
}

// End removes the pauses, of failover too.
func End(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	_, err := change(ctx, c, key, func(spec *v1alpha1.PostgresClusterSpec) {
		if spec.Repair != nil {
			spec.Repair.PausedFrom, spec.Repair.PausedUntil = nil, nil
		}
		if spec.Failover != nil {
			spec.Failover.PausedUntil = nil
		}
	})
	if err == nil {
		fmt.Fprintf(out, "Automatic repair and automatic failover of %s are on again.\n", key.Name)
	}
	return err
}

// change the spec, and return the cluster as it was written.
func change(ctx context.Context, c client.Client, key client.ObjectKey, do func(*v1alpha1.PostgresClusterSpec)) (*v1alpha1.PostgresCluster, error) {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return nil, err
	}
	before := cluster.DeepCopy()
	do(&cluster.Spec)
	return cluster, c.Patch(ctx, cluster, client.MergeFrom(before))
}
