// Package hibernatecmd stops a cluster and wakes it, and tells when that is done.
package hibernatecmd

import (
	"cmp"
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
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/prompt"
)

// Request is what spec.hibernate shall say.
type Request struct {
	Hibernate bool
	Wait      bool
	Timeout   time.Duration
	// Yes: nobody is asked before a cluster that serves clients is stopped.
	Yes bool
	In  io.Reader
}

// Ask writes the request into the cluster, and waits until it is so if that is wanted.
func (w Request) Ask(ctx context.Context, c client.Client, key client.ObjectKey, out io.Writer) error {
	cluster := &v1alpha1.PostgresCluster{}
	if err := c.Get(ctx, key, cluster); err != nil {
		return err
	}
	if w.Hibernate && !w.Yes && !cluster.Spec.Hibernate && meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady) {
		question := fmt.Sprintf("%s accepts connections. To stop all of its instances, type %[1]s: ", key.Name)
		if yes, err := prompt.New(w.In, out).Typed(ctx, question, key.Name); err != nil || !yes {
			return cmp.Or(err, errors.New("nothing was changed: type the name of the cluster, or add --yes"))
		}
	}
	before := cluster.DeepCopy()
	cluster.Spec.Hibernate = w.Hibernate
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return err
	}
	if !w.Wait {
		fmt.Fprintf(out, "Requested. The condition Ready of postgrescluster/%s says when it is done.\n", key.Name)
		return nil
	}
	began := time.Now()
	if err := w.await(ctx, c, key, cluster.Generation); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s It took %s.\n", w.done(), time.Since(began).Round(100*time.Millisecond))
	return nil
}

func (w Request) done() string {
	if w.Hibernate {
		return "All instances are stopped, and their volumes are kept."
	}
	return "The cluster accepts connections again."
}

// await waits until the cluster is as requested, by a status that speaks of this request or a later one.
func (w Request) await(ctx context.Context, c client.Client, key client.ObjectKey, generation int64) error {
	cluster, err := await.Cluster(ctx, c, key, w.Timeout, func(cluster *v1alpha1.PostgresCluster) (bool, error) {
		if cluster.Spec.Hibernate != w.Hibernate {
			return false, errors.New("somebody else has changed spec.hibernate in the meantime")
		}
		return cluster.Status.ObservedGeneration >= generation && w.fulfilled(cluster), nil
	})
	if await.Unanswered(err) {
		return fmt.Errorf("%w; spec.hibernate stays as requested%s", err, said(cluster))
	}
	return err
}

func (w Request) fulfilled(cluster *v1alpha1.PostgresCluster) bool {
	if w.Hibernate {
		c := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionUpToDate)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonHibernated
	}
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
}

func said(cluster *v1alpha1.PostgresCluster) string {
	if ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ": " + ready.Message
	}
	return ""
}
