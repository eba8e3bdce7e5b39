// Package pause suspends the automatic repair of a cluster for a while, and its failover if that is wanted, and ends that again.
package pause

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// longest pause that the API server accepts.
const longest = 24 * time.Hour

// Request is a pause that a person asks for.
type Request struct {
	For      time.Duration
	Failover bool
}

// Begin writes the pause into the cluster.
func (r Request) Begin(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time, out io.Writer) error {
	if r.For < time.Second || r.For > longest {
		return fmt.Errorf("--for must be from 1s to 24h, such as 2h; it is %s", r.For)
	}
	from := metav1.NewTime(now.UTC().Truncate(time.Second))
	until := metav1.NewTime(from.Add(r.For.Truncate(time.Second)))
	err := change(ctx, c, key, func(spec *v1alpha1.PostgresClusterSpec) {
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
	rest := "If the primary fails, another instance still takes over; --failover pauses that as well."
	if r.Failover {
		rest = "If the primary fails, no instance takes over either."
	}
	fmt.Fprintf(out, "Automatic repair of %s is paused until %s: an instance that fails is not restarted, rewound or cloned. %s\n",
		key.Name, until.Format(time.RFC3339), rest)
	return nil
}

// End removes the pauses, of failover too.
func End(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	err := change(ctx, c, key, func(spec *v1alpha1.PostgresClusterSpec) {
		if spec.Repair != nil {
			spec.Repair.PausedFrom, spec.Repair.PausedUntil = nil, nil
		}
		if spec.Failover != nil {
			spec.Failover.PausedUntil = nil
		}
	})
	if err == nil {
		fmt.Fprintf(out, "%s is repaired and replaces its primary automatically again.\n", key.Name)
	}
	return err
}

func change(ctx context.Context, c client.Client, key client.ObjectKey, do func(*v1alpha1.PostgresClusterSpec)) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	do(&cluster.Spec)
	return c.Patch(ctx, cluster, client.MergeFrom(before))
}
